"""Unique addresses for pods, also where several development clusters run side by side on one machine."""

import random
import socket
from collections.abc import Iterator

from devcluster.addresses import POD_NETWORK

BLOCKS = 255
ADDRESSES_PER_BLOCK = 254


class NoAddressLeft(Exception):
    """Every block of pod addresses is taken: end other development clusters on this machine."""


class AddressPool:
    """Hands out addresses ``10.244.a.b``; ``a`` is a block that only this agent uses on this machine.

    A block is claimed by binding a socket in the abstract namespace: the kernel frees it with the process,
    however that ends, and the name is valid exactly where the loopback addresses are, in one network
    namespace.
    """

    def __init__(self) -> None:
        self._claims: dict[int, socket.socket] = {}
        self._used: set[str] = set()
        self._order = self._endless()

    def reserve(self, address: str) -> bool:
        """Keep an address that a pod has already; False when it belongs to somebody else by now."""
        prefix, block = address.rsplit(".", 1)[0].rsplit(".", 1)
        if prefix != str(POD_NETWORK.network_address).rsplit(".", 2)[0] or address in self._used:
            return False
        if not self._claim(int(block)):
            return False
        self._used.add(address)
        return True

    def take(self) -> str:
        """An address that no pod has. Raises NoAddressLeft."""
        for _ in range(2 * len(self._claims) * ADDRESSES_PER_BLOCK):
            address = next(self._order)
            if address not in self._used:
                self._used.add(address)
                return address
        for block in random.sample(range(BLOCKS), BLOCKS):
            if block not in self._claims and self._claim(block):
                return self.take()
        raise NoAddressLeft(NoAddressLeft.__doc__)

    def release(self, address: str) -> None:
        """The pod with this address is gone; it is given out again as late as possible."""
        self._used.discard(address)

    def close(self) -> None:
        """Give all blocks back."""
        for claim in self._claims.values():
            claim.close()
        self._claims.clear()

    def _claim(self, block: int) -> bool:
        if block in self._claims:
            return True
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            claim.bind(f"\0devcluster-pod-addresses-{block}")
        except OSError:
            claim.close()
            return False
        self._claims[block] = claim
        return True

    def _endless(self) -> Iterator[str]:
        while True:
            for block in list(self._claims):
                for host in range(1, ADDRESSES_PER_BLOCK + 1):
                    yield f"10.244.{block}.{host}"
