# Sphinx configuration of the vignettes: `sphinx-build -W -b html vignettes OUTPUT`.
# Every page is executed afresh; a cell that raises, or a warning of Sphinx, fails the build.
from importlib.metadata import version as installed_version

from docutils import nodes
from latex2mathml.converter import convert

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
autodoc_typehints = "none"  # docstrings state types in the field's words
nitpicky = True

html_theme = "furo"
html_title = f"dpstats {release}"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["pages.css"]


# Formulas as MathML, made when the page is built: they need no script from another host.
html_math_renderer = "mathml"


def _inline(translator, node):
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _block(translator, node):
    translator.body.append(convert(node.astext(), display="block"))
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
