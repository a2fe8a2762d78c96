"""A small model of DeepSeek-V4.1's shape, with a DSpark draft."""

from onelaunch.engine.model.config import PRESETS, ModelConfig
from onelaunch.engine.model.target import Model

__all__ = ["PRESETS", "Model", "ModelConfig"]
