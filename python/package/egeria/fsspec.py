"""The volume as a file system of fsspec: ``egeria://path``, with ``pool=`` or $EGERIA_POOL."""

import stat as _stat

from fsspec import AbstractFileSystem

from . import Volume, _pool


class EgeriaFileSystem(AbstractFileSystem):
    """Files of a volume; directories of new files are made (``auto_mkdir``). Works in forked and in spawned processes: each attaches the volume by itself."""

    protocol = "egeria"
    root_marker = "/"

    def __init__(self, pool=None, read_only=False, auto_mkdir=True, **options):
        super().__init__(pool=pool, read_only=read_only, auto_mkdir=auto_mkdir, **options)
        self.auto_mkdir = auto_mkdir
        self.pool = _pool(pool)
        self.read_only = read_only
        self._attached = None
        # A wrong pool is an error here, not at the first file.
        self.volume

    @property
    def volume(self):
        """The volume, attached by this process."""
        if self._attached is None or not self._attached.is_attached_here:
            self._attached = Volume(self.pool, read_only=self.read_only)
        return self._attached

    def close(self):
        """Give the volume back; who uses the file system again attaches it again."""
        if self._attached is not None:
            self._attached.close()

    @classmethod
    def _strip_protocol(cls, path):
        path = super()._strip_protocol(path)
        if isinstance(path, list):
            return path
        return "/" + path.strip("/")

    def _open(self, path, mode="rb", block_size=None, autocommit=True, cache_options=None, **options):
        try:
            return self.volume.open(path, mode)
        except FileNotFoundError:
            if not self.auto_mkdir or mode[0] == "r":
                raise
        self.makedirs(self._parent(path), exist_ok=True)
        return self.volume.open(path, mode)

    def _info(self, path, follow=True):
        found = self.volume.stat(path, follow=follow)
        return {
            "name": path,
            "size": found.size,
            "type": found.type,
            "mode": found.mode,
            "uid": found.uid,
            "gid": found.gid,
            "ino": found.inode,
            "mtime": found.modified_ns / 1e9,
            "islink": _stat.S_ISLNK(found.mode),
        }

    def info(self, path, **options):
        return self._info(self._strip_protocol(path))

    def ls(self, path, detail=True, **options):
        path = self._strip_protocol(path)
        if self.volume.stat(path).type != "directory":
            found = [self._info(path)]
        else:
            found = []
            for name, _ in self.volume.list(path):
                name = f"{path.rstrip('/')}/{name}"
                try:
                    found.append(self._info(name))
                except FileNotFoundError:
                    # Removed meanwhile, or a link to nothing.
                    pass
        found.sort(key=lambda entry: entry["name"])
        return found if detail else [entry["name"] for entry in found]

    def mkdir(self, path, create_parents=True, **options):
        path = self._strip_protocol(path)
        if create_parents:
            self.makedirs(self._parent(path), exist_ok=True)
        self.volume.mkdir(path)

    def makedirs(self, path, exist_ok=False):
        path = self._strip_protocol(path)
        names = [name for name in path.split("/") if name]
        for count in range(1, len(names) + 1):
            try:
                self.volume.mkdir("/" + "/".join(names[:count]))
            except FileExistsError:
                if count == len(names) and not exist_ok:
                    raise
        if not names and not exist_ok:
            raise FileExistsError(path)

    def rmdir(self, path):
        self.volume.rmdir(self._strip_protocol(path))

    def rm_file(self, path):
        self.volume.unlink(self._strip_protocol(path))

    _rm = rm_file

    def rm(self, path, recursive=False, maxdepth=None):
        for found in reversed(self.expand_path(path, recursive=recursive, maxdepth=maxdepth)):
            if self.volume.stat(found, follow=False).type == "directory":
                self.volume.rmdir(found)
            else:
                self.volume.unlink(found)

    def mv(self, path1, path2, recursive=False, maxdepth=None, **options):
        """Rename: one step, whatever is below."""
        self.volume.rename(self._strip_protocol(path1), self._strip_protocol(path2))

    def cp_file(self, path1, path2, **options):
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.volume.stat(path1).type == "directory":
            self.makedirs(path2, exist_ok=True)
            return
        with self.volume.open(path1) as source, self._open(path2, "wb") as target:
            while piece := source.read(4 << 20):
                target.write(piece)

    def cat_file(self, path, start=None, end=None, **options):
        with self.volume.open(self._strip_protocol(path)) as file:
            size = file.stat().size
            start, end = (size + at if at is not None and at < 0 else at for at in (start, end))
            start = max(start or 0, 0)
            return file.read_at(max((size if end is None else min(end, size)) - start, 0), start)

    def pipe_file(self, path, value, mode="overwrite", **options):
        with self._open(self._strip_protocol(path), "xb" if mode == "create" else "wb") as file:
            file.write(value)

    def modified(self, path):
        from datetime import datetime, timezone

        return datetime.fromtimestamp(self.info(path)["mtime"], tz=timezone.utc)

    def where(self, path):
        """Which node holds which part of a file."""
        return self.volume.where(self._strip_protocol(path))
