import sys
from pathlib import Path

import matplotlib

sys.path.insert(0, str(Path(__file__).parent))
matplotlib.use("Agg")

import skcara

project = "skcara"
author = "The skcara developers"
copyright = author
version = release = skcara.__version__

extensions = [
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "auto_examples/*.md5"]
templates_path = ["_templates"]
default_role = "literal"

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# References to names of this package must resolve. Other projects' names are left
# unlinked, so that the build needs no network.
nitpicky = True
nitpick_ignore_regex = [
    (r"py:.*", r"(sklearn|numpy|scipy|matplotlib|joblib)\..*"),
]

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
    "algorithm": [],
    "migration": [],
    "contributing": [],
    "changes/index": [],
}
