"""Shared fixtures: one BLAS thread, a seed that tests must not depend on."""

import os

import pytest
from threadpoolctl import threadpool_limits

SEED = int(os.environ.get("SKCARA_TEST_SEED", "0"))


def pytest_report_header():
    """Say how to repeat a run."""
    return f"SKCARA_TEST_SEED={SEED}"


@pytest.fixture(scope="session", autouse=True)
def _one_blas_thread():
    with threadpool_limits(1, user_api="blas"):
        yield


@pytest.fixture
def global_random_seed():
    """Seed of the run; set SKCARA_TEST_SEED to try another one."""
    return SEED
