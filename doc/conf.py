import sys
from pathlib import Path

import matplotlib

sys.path.insert(0, str(Path(__file__).parent))
matplotlib.use("Agg")

from external_links import make_mapping

import skcara

DOC = Path(__file__).parent

project = "skcara"
author = "The skcara developers"
copyright = author
version = release = skcara.__version__

extensions = [
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "external_links",
    "mathml",
    "results_table",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "auto_examples/*.md5"]
templates_path = ["_templates"]
default_role = "literal"
html_math_renderer = "mathml"

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Every reference must resolve, in this package and into others. What may be referred to
# elsewhere is listed in inventories/, so that the build needs no network.
nitpicky = True
intersphinx_mapping = make_mapping(DOC / "inventories", DOC / "_build" / "inventories")
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"
numpydoc_xref_aliases = {
    "ndarray": "numpy.ndarray",
    "RandomState": "numpy.random.RandomState",
    "Generator": "numpy.random.Generator",
    "array-like": ":term:`numpy:array_like`",
}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"__init__\.py|(^|/)quickstart\.py",
    "within_subsection_order": "gallery_order.ReadingOrder",
    "doc_module": ("skcara",),
    "reference_url": {"skcara": None},
    "backreferences_dir": "generated/backreferences",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    # Only what a script prints and draws; not what its last line happens to return.
    "capture_repr": (),
    "write_computation_times": False,
    "min_reported_time": 1e6,
}

html_theme = "pydata_sphinx_theme"
html_title = f"skcara {version}"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "skcara"},
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "navbar_persistent": ["search-button"],
    "show_prev_next": False,
    # Gallery pages need their width for code.
    "secondary_sidebar_items": {
        "*": ["page-toc"],
        "generated/*": ["page-toc"],
        "changes/*": ["page-toc"],
        "auto_examples/*": [],
    },
    "pygments_light_style": "tango",
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {
    "index": [],
    "getting_started": [],
    "user_guide": [],
    "choosing_the_penalty": [],
    "larger_than_memory": [],
    "algorithm": [],
    "benchmarks": [],
    "migration": [],
    "contributing": [],
    "changes/index": [],
    "search": [],
}
