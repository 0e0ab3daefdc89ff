"""Kernels: the decorator, the classes of kernels, and their inspection."""
