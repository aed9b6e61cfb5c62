"""The settings of the documentation's site; `scripts/build_site.py` runs Sphinx with them."""

project = "Holdfast"
copyright = "the Holdfast authors"
root_doc = "index"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
templates_path = ["templates"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 6

autodoc_typehints = "none"
autodoc_member_order = "bysource"
add_module_names = False


html_theme = "shibuya"
html_title = "Holdfast"
html_show_sphinx = False
html_show_search_summary = False
html_theme_options = {
    "accent_color": "blue",
    "open_in_chatgpt": False,
    "open_in_claude": False,
    "show_ai_links": False,
    "toctree_maxdepth": 2,
    "nav_links": [
        {"title": "Tutorial", "url": "tutorial"},
        {"title": "Reference", "url": "reference"},
        {"title": "Comparison", "url": "comparison"},
    ],
}
