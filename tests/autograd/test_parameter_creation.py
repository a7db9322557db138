"""One test a fact about how parameters are made, and about the state of a module."""

import threading
from typing import Any

import torch
from torch import nn

from leafgrad import _autograd


def test_the_making_of_a_parameter_is_told_in_its_thread_alone() -> None:
    seen: list[Any] = []
    x = torch.ones(2)
    with _autograd.watched_parameters(lambda data, made: seen.append((data, made))):
        with _autograd.watched_parameters(lambda *_: None):
            first = nn.Parameter(x)
        second = nn.Parameter(data=x, requires_grad=False)
        nn.Parameter()
        thread = threading.Thread(target=nn.Parameter, args=(x,))
        thread.start()
        thread.join()
    third = nn.Parameter(x)
    assert [made for _, made in seen] == [first, second]
    assert all(data is x for data, _ in seen)
    assert type(third) is nn.Parameter
    assert "__call__" not in vars(type(nn.Parameter))
