"""The parts of the family `representations`: local compression, its bounds, global geometry."""
