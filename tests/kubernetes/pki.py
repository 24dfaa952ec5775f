"""Certificates for servers on 127.0.0.1, by openssl."""

from pathlib import Path

from processes import run

NAMES = "subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc"


class Authority:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True)
        self.certificate, self.key = self.folder / "ca.pem", self.folder / "ca-key.pem"
        new_key("EC", self.key)
        run(["openssl", "req", "-x509", "-new", "-key", self.key, "-out", self.certificate, "-days", "2", "-subj", "/CN=test authority",
             "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign"])

    def server(self, name):
        """The certificate and the key of a server."""
        key, asked, made = (self.folder / f"{name}{end}" for end in ("-key.pem", ".csr", ".pem"))
        extensions = self.folder / f"{name}.ext"
        new_key("EC", key)
        extensions.write_text(f"{NAMES}\nbasicConstraints=critical,CA:FALSE\nextendedKeyUsage=serverAuth\n")
        run(["openssl", "req", "-new", "-key", key, "-out", asked, "-subj", f"/CN={name}"])
        run(["openssl", "x509", "-req", "-in", asked, "-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial",
             "-out", made, "-days", "2", "-extfile", extensions])
        return made, key


def new_key(kind, path):
    how = {"EC": ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"], "RSA": ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]}
    run(["openssl", "genpkey", *how[kind], "-out", path])
    Path(path).chmod(0o600)
