"""What a measured claim about theory must say besides its verdict."""

from __future__ import annotations

from prgd_paper.claims import Claim, Judgement


def assert_evidence(found: Claim) -> None:
    """Ask for the setting and what would change the verdict; of a cross, where the setting is given."""
    finding = found.finding
    assert found.is_ours != bool(found.quote), found.name
    assert finding.setting, found.name
    assert finding.would_change, found.name
    if found.verdict is Judgement.FAILS:
        assert finding.given_in, found.name
        assert finding.what, found.name
        assert not finding.not_given, found.name
