"""A driver of OpenStack Cinder for volumes of Amita, by nodes' REST API."""

VERSION = '0.1.0'
