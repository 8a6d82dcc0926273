"""What a grid is made of: the sections of its file, its settings, packs and jobs, and its fidelity.

A zoo and a simulation use some of it.
"""
