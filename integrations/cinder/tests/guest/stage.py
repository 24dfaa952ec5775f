"""Packs this Python with os-brick, and all that it depends on, for a guest of
another release: the interpreter with its libraries, the standard library, and
the distributions as their wheels have them.

usage: stage.py ARCHIVE
"""

import importlib.metadata
import io
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tarfile

# Where it lies in the guest.
PLACE = '/run/brick'
# What no hypervisor's os-brick needs of the standard library.
LEFT_OUT = {'test', 'idlelib', 'tkinter', 'turtledemo', 'ensurepip',
            'site-packages', '__pycache__', 'lib2to3', 'pydoc_data'}
SCRIPT = '''#!/bin/sh
export PYTHONHOME={place} PYTHONPATH={place}/site PYTHONDONTWRITEBYTECODE=1
exec {place}/libraries/{loader} --library-path {place}/libraries \
{place}/bin/python {words} "$@"
'''


def distributions(name, found=None):
    """A distribution and what it depends on."""
    found = {} if found is None else found
    key = re.sub(r'[-_.]+', '-', name).lower()
    if key not in found:
        try:
            one = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            # Of another platform or of older Pythons.
            found[key] = None
            return found
        found[key] = one
        for wanted in one.requires or ():
            if 'extra ==' not in wanted:
                distributions(re.match(r'[\w.-]+', wanted).group(), found)
    return found


def libraries(files):
    """What these are linked with, name to path; the loader among them."""
    linked = {}
    for file in files:
        said = subprocess.run(['ldd', file], capture_output=True, text=True)
        for line in said.stdout.splitlines():
            words = line.split()
            path = next((word for word in words if word.startswith('/')), None)
            if path and os.path.exists(path):
                linked[os.path.basename(words[0])] = os.path.realpath(path)
    return linked


def main(archive):
    binary = os.path.realpath(sys.executable)
    standard = pathlib.Path(sysconfig.get_path('stdlib'))
    packed = {}
    for file in standard.rglob('*'):
        inner = file.relative_to(standard)
        if file.is_file() and not LEFT_OUT & set(inner.parts) and \
                not inner.parts[0].startswith('config-') and \
                not inner.name.startswith('_tkinter'):
            packed[f'lib/{standard.name}/{inner}'] = file
    for one in distributions('os-brick').values():
        for file in (one.files or ()) if one else ():
            if '..' not in file.parts and file.suffix != '.pyc':
                packed[f'site/{file}'] = pathlib.Path(one.locate_file(file))
    made = [binary, *(str(path) for path in packed.values()
                      if '.so' in path.suffixes)]
    linked = libraries(made)
    loader = next(name for name in linked if name.startswith('ld-linux'))
    packed.update((f'libraries/{name}', path)
                  for name, path in linked.items())
    packed['bin/python'] = binary
    with tarfile.open(archive, 'w') as tar:
        for name, path in packed.items():
            if os.path.exists(path):
                tar.add(path, name, recursive=False)
        for name, words in (
                ('python', ''),
                ('privsep-helper', '-c "from oslo_privsep.daemon import '
                                   'helper_main; helper_main()"')):
            text = SCRIPT.format(place=PLACE, loader=loader, words=words)
            member = tarfile.TarInfo(name)
            member.mode, member.size = 0o755, len(text)
            tar.addfile(member, io.BytesIO(text.encode()))


if __name__ == '__main__':
    main(sys.argv[1])
