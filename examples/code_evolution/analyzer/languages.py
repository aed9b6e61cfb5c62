"""Which language a file name means: by name, then by extension, never by content."""

from functools import lru_cache

_EXTENSIONS = {
    "Ada": "adb ads",
    "Assembly": "asm s",
    "Astro": "astro",
    "Batch": "bat cmd",
    "C": "c h",
    "C#": "cs csx",
    "C++": "cc cpp cxx c++ hh hpp hxx h++ ipp tpp",
    "CMake": "cmake",
    "CSS": "css",
    "CSV": "csv tsv",
    "Clojure": "clj cljs cljc edn",
    "CoffeeScript": "coffee",
    "Common Lisp": "lisp cl",
    "Crystal": "cr",
    "Cuda": "cu cuh",
    "Cython": "pyx pxd pxi",
    "D": "d di",
    "Dart": "dart",
    "Diff": "diff patch",
    "Elixir": "ex exs heex",
    "Elm": "elm",
    "Emacs Lisp": "el",
    "Erlang": "erl hrl",
    "F#": "fs fsi fsx",
    "Fortran": "f f77 f90 f95 f03 f08 for",
    "GLSL": "glsl vert frag",
    "Go": "go",
    "GraphQL": "graphql gql",
    "Groovy": "groovy gradle",
    "HCL": "hcl tf tfvars",
    "HTML": "html htm xhtml",
    "Haskell": "hs lhs",
    "INI": "ini cfg conf properties",
    "JSON": "json jsonc json5 jsonl geojson webmanifest",
    "Java": "java",
    "JavaScript": "js mjs cjs jsx",
    "Julia": "jl",
    "Jupyter Notebook": "ipynb",
    "Kotlin": "kt kts",
    "LaTeX": "tex sty cls bib",
    "Less": "less",
    "Lua": "lua",
    "MATLAB": "mlx matlab",
    "Makefile": "mk mak",
    "Markdown": "md markdown mdx",
    "Meson": "meson",
    "Nim": "nim",
    "Nix": "nix",
    "OCaml": "ml mli",
    "Objective-C": "m mm",
    "PHP": "php phtml",
    "Pascal": "pas pp dpr",
    "Perl": "pl pm t",
    "PowerShell": "ps1 psm1 psd1",
    "Protocol Buffers": "proto",
    "Python": "py pyi pyw",
    "R": "r rmd",
    "Racket": "rkt",
    "Ruby": "rb rake gemspec erb",
    "Rust": "rs",
    "SCSS": "scss sass",
    "SQL": "sql",
    "SVG": "svg",
    "Scala": "scala sbt",
    "Scheme": "scm ss",
    "Shell": "sh bash zsh fish ksh",
    "Solidity": "sol",
    "Starlark": "bzl star",
    "Svelte": "svelte",
    "Swift": "swift",
    "SystemVerilog": "sv svh v",
    "TOML": "toml",
    "Tcl": "tcl",
    "Text": "txt rst adoc org",
    "TypeScript": "ts tsx mts cts",
    "VHDL": "vhd vhdl",
    "Vim Script": "vim",
    "Visual Basic": "vb bas",
    "Vue": "vue",
    "XML": "xml xsd xsl xslt plist",
    "YAML": "yaml yml",
    "Zig": "zig",
}
_NAMES = {
    "CMake": "CMakeLists.txt",
    "Dockerfile": "Dockerfile Containerfile",
    "Groovy": "Jenkinsfile",
    "INI": ".editorconfig .gitconfig .gitmodules",
    "Makefile": "Makefile GNUmakefile makefile",
    "Meson": "meson.build meson_options.txt",
    "Ruby": "Rakefile Gemfile Vagrantfile Podfile Brewfile",
    "Shell": ".bashrc .bash_profile .profile .zshrc",
    "Starlark": "BUILD WORKSPACE BUILD.bazel",
    "Text": "README LICENSE COPYING AUTHORS CHANGES NEWS TODO INSTALL",
    "Vim Script": ".vimrc",
}
OTHER = "Other"

_BY_EXTENSION = {end.encode(): language for language, ends in _EXTENSIONS.items() for end in ends.split()}
_BY_NAME = {name.encode(): language for language, names in _NAMES.items() for name in names.split()}

_NOT_OURS = frozenset(
    b"node_modules vendor vendored third_party third-party bower_components Pods .yarn dist-packages site-packages".split()
)
_GENERATED_NAMES = frozenset(
    b"package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml poetry.lock uv.lock Pipfile.lock Cargo.lock go.sum "
    b"composer.lock Gemfile.lock flake.lock".split()
)
_GENERATED_ENDS = (
    b".min.js",
    b".min.css",
    b".min.mjs",
    b".js.map",
    b".css.map",
    b"_pb2.py",
    b"_pb2_grpc.py",
    b".pb.go",
    b".bundle.js",
)


def language_of(path: bytes) -> str | None:
    """Return the language of a path as git stores it; None for what people did not write here (vendored, generated).

    Names are bytes and stay bytes: a repository may hold any encoding, or none.

    >>> language_of(b"src/caf\\xe9.py"), language_of(b"Makefile"), language_of(b"web/vendor/x.js"), language_of(b"x.unheard")
    ('Python', 'Makefile', None, 'Other')
    """
    return _remembered(path) if len(path) <= _USUAL else _language_of(path)


def _language_of(path: bytes) -> str | None:
    folders, _, name = path.rpartition(b"/")
    if name in _GENERATED_NAMES or name.endswith(_GENERATED_ENDS) or not _NOT_OURS.isdisjoint(folders.split(b"/")):
        return None
    if name in _BY_NAME:
        return _BY_NAME[name]
    stem, dot, end = name.rpartition(b".")
    if name.startswith(b"Dockerfile."):
        return "Dockerfile"
    return _BY_EXTENSION.get(end.lower(), OTHER) if dot and stem else OTHER


# Of usual lengths only: git knows no longest path, so a repository could fill the memory with names.
_USUAL = 512
_remembered = lru_cache(maxsize=4096)(_language_of)
