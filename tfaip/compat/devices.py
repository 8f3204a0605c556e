"""Devices that are set up at once."""

from __future__ import annotations

from tfaip.device.device_config import DeviceConfigParams
from tfaip.device.devices import prepare_devices


class DeviceConfig:
    """Devices of this process: the constructor imports the backend with them.

    Args:
        params: the devices; None: the default ones.

    Raises:
        UsageError: if a device is not there, or the backend is in use already and cannot be changed any more.
    """

    def __init__(self, params: DeviceConfigParams | None = None) -> None:
        self.params = params or DeviceConfigParams()
        prepare_devices(self.params, alone=True)
