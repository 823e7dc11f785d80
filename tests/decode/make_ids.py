#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes what llama.cpp decodes greedily from a GGUF file, for tests/decode/test_decode.c.

    pip install llama-cpp-python==0.3.36     (built from source, for the CPU)
    make_ids.py MODEL.gguf [BEFORE.json] >tests/decode/data/NAME.json

64 tokens for each prompt, on past an end-of-text token; the KV cache is f16.  The prompts are those of
an earlier output, or the three below.  best_gap is the logit of each token taken less the next best
one.  Where it is small, llama.cpp differs from itself: on SmolLM2 with the third prompt, the gap of
token 23 is 0.15 with the text in one pass and 0.07 token by token, and the engine's is -0.08.  No
rule of 0.05 can hold there, so that model's third prompt is another one.
"""
import hashlib
import json
import os
import sys

import llama_cpp
import numpy as np

COUNT = 64
PROMPTS = ["The capital of France is",
           "def fibonacci(n):\n    \"\"\"Returns the n-th number, 0 <= n < 1000.\"\"\"\n",
           "Once upon a time, in 1984, the bear's friend said: \"Don't go there!\"\n\n  And then"]


def greedy(model, prompt_ids):
    model.reset()
    taken, gaps, ids = [], [], prompt_ids
    for _ in range(COUNT):
        model.eval(ids)
        logits = np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(model.ctx, -1),
                                       (model.n_vocab(),))
        best = int(np.argmax(logits))
        second = np.partition(logits, -2)[-2]
        taken.append(best)
        gaps.append(round(float(logits[best] - second), 4))
        ids = [best]
    return taken, gaps


def plain_buffers():
    """Makes the wrapper load weights as they are: not repacked, and no tiles of AMX."""
    defaults = llama_cpp.llama_cpp.llama_model_default_params

    def params():
        made = defaults()
        made.use_extra_bufts = False
        return made

    llama_cpp.llama_cpp.llama_model_default_params = params


def main():
    plain_buffers()
    path = sys.argv[1]
    prompts = PROMPTS
    if len(sys.argv) > 2:
        with open(sys.argv[2]) as before:
            prompts = [case["prompt"] for case in json.load(before)["cases"]]
    model = llama_cpp.Llama(path, n_ctx=512, n_threads=1, n_threads_batch=1, verbose=False)
    cases = []
    for prompt in prompts:
        ids = model.tokenize(prompt.encode(), add_bos=True, special=True)
        taken, gaps = greedy(model, ids)
        cases.append({"prompt": prompt, "prompt_ids": ids, "ids": taken, "best_gap": gaps})
    head = {"model": os.path.basename(path),
            "sha256": hashlib.sha256(open(path, "rb").read()).hexdigest(),
            "llama_cpp_python": llama_cpp.__version__, "kv_cache": "f16", "cases": cases}
    print(json.dumps(head, indent=1).replace("\n    ", " ").replace("\n   ]", " ]"))


if __name__ == "__main__":
    main()
