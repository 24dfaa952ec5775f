"""What schemathesis does not know of: who may do what (x-amita-roles), and that an error is a problem of RFC 9457 with a code."""

import os

import schemathesis

ROLE = os.environ["AMITA_FUZZ_ROLE"]


@schemathesis.check
def only_who_may_does(ctx, response, case):
    """Whoever may not is refused, whatever they send."""
    roles = case.operation.definition.raw["x-amita-roles"]
    if ROLE == "nobody":
        assert response.status_code == 401, f"nobody is answered with {response.status_code}"
    elif ROLE not in roles:
        assert response.status_code >= 400, f"{ROLE} is answered with {response.status_code}, and may not"


@schemathesis.check
def errors_have_codes(ctx, response, case):
    """An error says its code, which goes with its status, and what to do."""
    if response.status_code < 400 or case.method == "HEAD":
        return
    problem = response.json()
    assert problem["status"] == response.status_code, problem
    assert problem["type"].endswith("/" + problem["code"]), problem
    assert len(problem["detail"]) > 10, problem
