"""Optimizers whose states live partly or wholly in host memory."""

from spillway.optimizer.hybrid import HybridDeviceOptimizer
from spillway.optimizer.options import EngineOptions, Placement

__all__ = ["EngineOptions", "HybridDeviceOptimizer", "Placement"]
