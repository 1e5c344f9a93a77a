# rooms: step view/diff
"""A changed operator or constant is found where it stands: the quick part of `make proof`."""
import sys

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests" / "proof"))

import pytest  # noqa: E402
import seeded  # noqa: E402


@pytest.mark.slow
@pytest.mark.parametrize("garbage", [False, True], ids=["clean", "garbage"])
def test_the_first_difference_is_in_the_changed_function(capsys, garbage):
    sources = sorted(seeded.SEEDS.glob("*.c"))
    right, count = seeded.prove(sources, 28, 2, garbage=garbage)
    assert count >= 20
    assert right >= seeded.WANTED * count, capsys.readouterr().out
