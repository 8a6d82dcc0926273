"""A reproducible laboratory for flat minima: loss sharpness and compressed representations."""

__version__ = "0.1.0"
