"""Zoos: networks of timm, trained here or elsewhere, measured one by one."""
