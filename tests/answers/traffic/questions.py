"""The question that several tests of ``traffic`` ask."""

import perfmodel as pm

ASK = {
    "model": "gpt-oss-120b",
    "hardware": "h200",
    "input_len": "8k",
    "output_len": "1k",
    "draft": "eagle:features=3",
}


def rows(**more):
    return pm.traffic(**ASK | {"alpha": 0.6, "closed_form": True} | more).rows
