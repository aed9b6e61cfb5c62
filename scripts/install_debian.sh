#!/bin/sh
# Install the Debian packages of these names unless their programs are there; say so when that cannot be done, and go on.
PATH=$PATH:/usr/sbin:/sbin
for package in "$@"; do
    command -v "$package" > /dev/null && continue
    echo "installing $package"
    if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
        { apt-get install -y -q "$package" || { apt-get update -q && apt-get install -y -q "$package"; }; } > /dev/null 2>&1
    fi
    command -v "$package" > /dev/null || echo "$package cannot be installed here, so what needs it cannot run (apt-get install $package)"
done
exit 0
