"""Failure rules, one declaration a code, and the classification of attempts and logs.

A rule reads text and figures. Nothing here compiles or looks at other records.
"""

from flacheck.rules.base import RULES as RULES
from flacheck.rules.base import UNCLASSIFIED as UNCLASSIFIED
from flacheck.rules.base import blames_release as blames_release
from flacheck.rules.base import host_rule as host_rule
from flacheck.rules.classify import classify as classify
from flacheck.rules.classify import read as read
from flacheck.rules.decisive import decisive as decisive
from flacheck.rules.decisive import is_wrapper as is_wrapper
from flacheck.rules.measurements import over_limits as over_limits
from flacheck.rules.measurements import slow as slow
from flacheck.rules.signature import normalise as normalise
from flacheck.rules.signature import signature as signature
