"""The steps of the family `sharpness`: ascent on the loss of batches."""
