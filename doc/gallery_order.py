"""Order of the gallery: as one would read it."""

READING_ORDER = (
    "plot_quickstart.py",
    "plot_reduced_measure.py",
    "plot_photo_pixels.py",
    "plot_photo_neighbours.py",
    "plot_digits.py",
    "plot_convergence.py",
    "plot_regularization_path.py",
    "plot_search.py",
    "plot_leaking_scaler.py",
    "plot_logistic_hard_cases.py",
    "plot_block_rules.py",
    "plot_recombine.py",
    "plot_coreset.py",
    "plot_parquet.py",
    "plot_dask.py",
)


class ReadingOrder:
    """Sort key of sphinx-gallery; a script that is not in the list comes last."""

    def __init__(self, source_folder):
        self.source_folder = source_folder

    def __call__(self, file_name):
        """Position of a script."""
        if file_name in READING_ORDER:
            return READING_ORDER.index(file_name), file_name
        return len(READING_ORDER), file_name
