"""macdonald2023: On progressive sharpening, flat minima and generalisation."""
