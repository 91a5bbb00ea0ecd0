"""Settings for all tests: the same examples in every run, and no judgement by the clock.

``make soak`` explores: it runs the properties with fresh examples and more of them (profile ``explore``).
"""

from __future__ import annotations

import gc
import os
import signal

from hypothesis import HealthCheck, settings

settings.register_profile(
    "repeat", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.register_profile(
    "explore", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeat"))

# Campaigns and examples make many objects that stay for a while, and hardly any cycles: fewer collections, less time.
gc.set_threshold(50_000, 20, 50)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell without job control starts what is in its background so. Tests of Ctrl-C, and the processes that they
    # start, need it as people have it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Hundreds of tests would record what is made once for a user, and some would find it and some not.
os.environ.setdefault("PENSTOCK_CLASS_ARCHIVE", "off")
