# Sphinx configuration of the vignettes: `sphinx-build -W -b html vignettes OUTPUT`.
# Every page is executed afresh; a cell that raises, or a warning of Sphinx, fails the build.
from importlib.metadata import version as installed_version

project = "dpstats"
author = "The dpstats authors"
copyright = "The dpstats authors"
release = installed_version("dpstats")
version = release

extensions = ["myst_nb", "sphinx.ext.autodoc", "numpydoc"]
myst_enable_extensions = ["dollarmath"]
exclude_patterns = ["_build", "jupyter_execute", "**/.ipynb_checkpoints"]
# No intersphinx: a build must not depend on other hosts.

nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True

numpydoc_show_class_members = False

html_theme = "furo"
html_title = f"dpstats {release}"
html_show_sourcelink = False
