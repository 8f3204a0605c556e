"""Devices, precision, and the processes of a cluster."""

from tfaip.device.device_config import DeviceConfigParams, DistStrategy, Precision

__all__ = ["DeviceConfigParams", "DistStrategy", "Precision"]
