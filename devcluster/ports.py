"""Free ports on the loopback interface."""

import random
import socket

# Below the range from which Linux takes the ports of outgoing connections (32768 and up): a port that is free
# now would else be lost to any client that connects somewhere before the server binds it.
_LOWEST = 18000
_HIGHEST = 29999


def free_ports(count: int) -> list[int]:
    """``count`` TCP ports that nothing listens on now; another process may still be faster."""
    chooser = random.SystemRandom()
    found: list[int] = []
    for _ in range(2000):
        port = chooser.randint(_LOWEST, _HIGHEST)
        if port not in found and _is_free(port):
            found.append(port)
            if len(found) == count:
                return found
    raise OSError(f"no {count} free ports between {_LOWEST} and {_HIGHEST}")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
