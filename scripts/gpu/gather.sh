#!/usr/bin/env bash
# Copies the headers, CMake files and libraries of the C++ dependencies from this machine's installed packages
# into .deps/, for a GPU machine on which no package manager reaches anything.
# Use: scripts/gpu/gather.sh here, copy the tree with .deps/ there, scripts/gpu/build.sh there.
set -euo pipefail
cd "$(dirname "$0")/../.."
scripts/install_dependencies.sh
target=.deps
rm -rf "$target"
mkdir -p "$target"

packages=(libcli11-dev nlohmann-json3-dev libyaml-cpp-dev libyaml-cpp0.7 libfmt-dev libfmt9
          libspdlog-dev libspdlog1.10 libgtest-dev libgmock-dev libbenchmark-dev libbenchmark1debian
          pybind11-dev libjs-chart.js)
for package in "${packages[@]}"; do
  dpkg -L "$package" | grep -E '^/usr/(include|lib|share/cmake|share/javascript)/' | grep -vE '/(doc|man)/' |
    while read -r path; do
      if [ -f "$path" ] || [ -L "$path" ]; then
        mkdir -p "$target$(dirname "$path")"
        cp -P "$path" "$target$path"
      fi
    done
done
du -sh "$target" | awk '{print "Gathered " $1 " in .deps/"}'
