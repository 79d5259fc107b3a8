"""Names of the rules and the combinations that exist."""

import pytest

from skcara.blocks import (
    PARTITIONS,
    SELECTIONS,
    check_rule,
    is_valid_rule,
    resolve_fraction,
    rule_names,
    rule_params,
)

VARIABLE = {"GS", "Random", "Cyclic", "Perm", "Lipschitz", "GSD", "GSDHb", "IHT"}
FIXED = {"GS", "Random", "Cyclic", "Perm", "Lipschitz", "GSD", "GSL", "GSQ"}


@pytest.mark.parametrize("partition", ["VB", "Sort", "Order", "Avg"])
def test_valid_combinations_are_those_of_the_literature(partition):
    expected = VARIABLE if partition == "VB" else FIXED
    assert {s for s in SELECTIONS if is_valid_rule(partition, s)} == expected


def test_invalid_combination_names_the_valid_ones():
    with pytest.raises(
        ValueError, match=r"'GSQ' is not defined.*'IHT'\] for partition='VB'"
    ):
        check_rule("VB", "GSQ")
    with pytest.raises(
        ValueError, match=r"'IHT' is not defined.*partition from \['VB'\]"
    ):
        check_rule("Sort", "IHT")


@pytest.mark.parametrize("name", rule_names())
@pytest.mark.parametrize("suffix", ["", "_CA"])
def test_rule_params_are_the_parts_of_the_name(name, suffix):
    params = rule_params(name + suffix)
    assert "_".join(params.values()) == name
    assert list(params) == ["partition", "selection", "direction"]


@pytest.mark.parametrize("name", ["VB_GS", "vb_gs_lb", "VB_GSQ_Hb", "Sort_IHT_Lb", ""])
def test_unknown_rule_is_refused(name):
    with pytest.raises(ValueError, match=r"is not a rule|Choose selection from"):
        rule_params(name)


def test_auto_fraction_is_the_articles_for_its_own_rules_only():
    assert resolve_fraction("auto", "VB", "GS") == 0.75
    assert resolve_fraction("auto", "VB", "Random") == 0.5
    others = [(p, s) for p in PARTITIONS for s in SELECTIONS]
    others.remove(("VB", "GS"))
    others.remove(("VB", "Random"))
    assert {resolve_fraction("auto", *rule) for rule in others} == {None}
    assert resolve_fraction(0.2, "VB", "GS") == 0.2
    assert resolve_fraction(None, "VB", "GS") is None
