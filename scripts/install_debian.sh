#!/bin/sh
# Install the Debian packages of these names unless their programs are there; say so when that cannot be done, and go on.
# `package=program` is a package whose program has another name.
PATH=$PATH:/usr/sbin:/sbin
for each in "$@"; do
    package=${each%%=*} program=${each#*=}
    command -v "$program" > /dev/null && continue
    echo "installing $package"
    if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
        { apt-get install -y -q "$package" || { apt-get update -q && apt-get install -y -q "$package"; }; } > /dev/null 2>&1
    fi
    command -v "$program" > /dev/null || echo "$program cannot be installed here, so what needs it cannot run (apt-get install $package)"
done
exit 0
