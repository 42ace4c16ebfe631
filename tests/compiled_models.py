"""Small models of the kinds in torchbench, each compiled and trained for a step on the card.

`python -m tests.compiled_models NAME [MODE]` runs one: `torch.compile` in a mode, a forward pass,
a backward pass and a step of an optimizer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[Any, ...]]]] = {}


def _model(make: Callable[[], tuple[nn.Module, tuple[Any, ...]]]) -> Any:
    MODELS[make.__name__] = make
    return make


def _tokens(*size: int) -> Tensor:
    return torch.randint(0, 128, size, device="cuda")


def _floats(*size: int) -> Tensor:
    return torch.randn(size, device="cuda")


class Attention(nn.Module):
    """Causal attention, whose q, k and v are unpacked from one permuted view."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        parts = self.qkv(x).view(b, t, 3, self.heads, d // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, width: int, mixer: nn.Module) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mixer = mixer
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mixer(self.norm(x))
        return x + self.mlp(x)


@_model
def gpt() -> Any:
    layers = (nn.Embedding(128, 64), Block(64, Attention(64, 4)), nn.Linear(64, 128))
    return nn.Sequential(*layers), (_tokens(2, 32),)


class Bert(nn.Module):
    """An encoder with learned positions, dropout and a mask of padding."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(128, 64, padding_idx=0), nn.Embedding(32, 64)
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)
        self.pooler = nn.Linear(64, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.words(tokens) + self.places(places)
        x = self.encoder(x, src_key_padding_mask=tokens == 0)
        return torch.tanh(self.pooler(x[:, 0]))


@_model
def bert() -> Any:
    return Bert(), (_tokens(2, 32),)


class ViT(nn.Module):
    """Patches of an image, a class token and attention by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 64, 8, stride=8)
        self.token = nn.Parameter(torch.zeros(1, 1, 64))
        self.q, self.k, self.v = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 64)
        self.head = nn.Linear(64, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1)
        weights = (self.q(x) @ self.k(x).transpose(1, 2) / 8).softmax(-1)
        return self.head((weights @ self.v(x))[:, 0])


@_model
def vit() -> Any:
    return ViT(), (_floats(2, 3, 32, 32),)


class Residual(nn.Module):
    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inner, outer, 3, 2, 1, bias=False), nn.BatchNorm2d(outer), nn.ReLU(True),
            nn.Conv2d(outer, outer, 3, 1, 1, bias=False), nn.BatchNorm2d(outer),
        )  # fmt: skip
        self.way = nn.Conv2d(inner, outer, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.way(x), inplace=True)


@_model
def resnet() -> Any:
    layers = (nn.Conv2d(3, 16, 7, 2, 3), nn.MaxPool2d(3, 2, 1), Residual(16, 32))
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    return nn.Sequential(*layers, *head), (_floats(2, 3, 64, 64),)


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(1, 8, 3, padding=1)
        self.bottom = nn.Sequential(
            nn.Conv2d(8, 16, 3, padding=1), nn.InstanceNorm2d(16), nn.SiLU()
        )
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.out = nn.Conv2d(16, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        skip = F.relu(self.down(x))
        x = self.up(self.bottom(F.max_pool2d(skip, 2)))
        x = F.interpolate(x, size=skip.shape[2:], mode="bilinear", align_corners=False)
        return self.out(torch.cat((skip, x), 1))


@_model
def unet() -> Any:
    return UNet(), (_floats(2, 1, 32, 32),)


class Recurrent(nn.Module):
    """Cells of an LSTM and a GRU in a loop, which the compiler unrolls; it skips torch.nn.LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru = nn.LSTMCell(32, 32), nn.GRUCell(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        h = c = g = x.new_zeros(x.shape[0], 32)
        outputs = []
        for step in x.unbind(1):
            h, c = self.lstm(step, (h, c))
            g = self.gru(h, g)
            outputs.append(g)
        return torch.stack(outputs, 1)


@_model
def recurrent() -> Any:
    return Recurrent(), (_floats(4, 3, 32),)


class Experts(nn.Module):
    """A mixture of experts: a router with two of four, and a sum of what they make."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(32, 4)
        self.up = nn.Parameter(torch.randn(4, 32, 64) / 8)
        self.down = nn.Parameter(torch.randn(4, 64, 32) / 8)

    def forward(self, x: Tensor) -> Tensor:
        weights, experts_of_token = self.router(x).softmax(-1).topk(2)
        gates = torch.zeros(x.shape[0], 4, device=x.device).scatter(1, experts_of_token, weights)
        hidden = F.silu(torch.einsum("td,edh->eth", x, self.up))
        return torch.einsum("eth,ehd,te->td", hidden, self.down, gates)


@_model
def experts() -> Any:
    return Experts(), (_floats(64, 32),)


class RoutedExpert(nn.Module):
    """An expert with its tokens gathered: their number is known at run time."""

    def __init__(self) -> None:
        super().__init__()
        self.router, self.expert = nn.Linear(32, 2), nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        weights, experts_of_token = self.router(x).softmax(-1).max(-1)
        rows = (experts_of_token == 1).nonzero().squeeze(1)
        return torch.zeros_like(x).index_add(0, rows, self.expert(x[rows]) * weights[rows, None])


@_model
def routed_expert() -> Any:
    return RoutedExpert(), (_floats(16, 32),)


class Diffusion(nn.Module):
    """A block of a diffusion model: sine embedding of the time, group norm, cross attention."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.conv = nn.GroupNorm(4, 32), nn.Conv2d(32, 32, 3, padding=1)
        self.time = nn.Linear(32, 64)
        self.attention = nn.MultiheadAttention(32, 4, kdim=16, vdim=16, batch_first=True)

    def forward(self, x: Tensor, time: Tensor, text: Tensor) -> Tensor:
        rates = torch.exp(torch.arange(16, device=x.device) * -0.5)
        angles = time[:, None] * rates
        scale, shift = self.time(torch.cat((angles.sin(), angles.cos()), -1)).chunk(2, -1)
        h = F.silu(self.norm(x)) * (1 + scale[..., None, None]) + shift[..., None, None]
        h = self.conv(h).flatten(2).transpose(1, 2)
        return x + self.attention(h, text, text)[0].transpose(1, 2).view_as(x)


@_model
def diffusion() -> Any:
    return Diffusion(), (_floats(2, 32, 8, 8), _floats(2), _floats(2, 5, 16))


class Recommender(nn.Module):
    """Bags of embeddings, and the products of each pair of them."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(128, 16, mode="sum") for _ in range(3))
        self.dense, self.top = nn.Linear(13, 16), nn.Linear(16 + 6, 1)

    def forward(self, dense: Tensor, ids: Tensor) -> Tensor:
        x = F.relu(self.dense(dense))
        vectors = torch.stack([x, *(bag(ids[i]) for i, bag in enumerate(self.bags))], 1)
        products = vectors @ vectors.transpose(1, 2)
        rows, columns = torch.tril_indices(4, 4, offset=-1, device=x.device)
        return torch.sigmoid(self.top(torch.cat((x, products[:, rows, columns]), 1)))


@_model
def recommender() -> Any:
    return Recommender(), (_floats(8, 13), _tokens(3, 8, 4))


class Transducer(nn.Module):
    """An encoder and a predictor, joined for each pair of time and label."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.predictor = nn.Conv1d(16, 32, 3, padding=1), nn.Embedding(128, 32)
        self.joint = nn.Linear(32, 128)

    def forward(self, sound: Tensor, labels: Tensor) -> Tensor:
        frames = self.encoder(sound).transpose(1, 2)
        pairs = frames[:, :, None] + self.predictor(labels)[:, None]
        scores = self.joint(torch.tanh(pairs)).log_softmax(-1)
        return scores.logsumexp(1)


@_model
def transducer() -> Any:
    return Transducer(), (_floats(2, 16, 12), _tokens(2, 5))


class Scan(nn.Module):
    """A selective scan in plain torch: a state with a decay for each channel."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(32, 32, 4, groups=32, padding=3)
        self.inputs, self.rate = nn.Linear(32, 2 * 8), nn.Linear(32, 32)
        self.decay = nn.Parameter(torch.zeros(32, 8))

    def forward(self, x: Tensor) -> Tensor:
        x = F.silu(self.conv(x.transpose(1, 2))[..., : x.shape[1]]).transpose(1, 2)
        rate, (b, c) = F.softplus(self.rate(x)), self.inputs(x).chunk(2, -1)
        logs = -torch.exp(self.decay) * rate[..., None]
        whole = logs.cumsum(1)
        state = torch.exp(whole) * torch.cumsum(
            torch.exp(-whole) * (rate * x)[..., None] * b[:, :, None], 1
        )
        return (state * c[:, :, None]).sum(-1)


@_model
def scan() -> Any:
    return Scan(), (_floats(2, 8, 32),)


class Adversaries(nn.Module):
    """A generator with a discriminator behind it: the penalty of hinge losses."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Sequential(
            nn.ConvTranspose2d(8, 16, 4), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 1, 1),
            nn.Tanh(),
        )  # fmt: skip
        self.critic = nn.Sequential(
            nn.utils.parametrizations.spectral_norm(nn.Conv2d(1, 8, 3)), nn.LeakyReLU(0.2)
        )

    def forward(self, noise: Tensor, real: Tensor) -> Tensor:
        false = self.critic(self.generator(noise))
        return F.relu(1 + false) + F.relu(1 - self.critic(real))


@_model
def adversaries() -> Any:
    return Adversaries(), (_floats(2, 8, 1, 1), _floats(2, 1, 4, 4))


def train(name: str, mode: str) -> None:
    """Compile a model in a mode, and make a step with it."""
    model, inputs = MODELS[name]()
    model = torch.compile(model.cuda(), mode=mode)
    optimizer = torch.optim.AdamW(model.parameters())
    output = model(*inputs)
    output.float().square().mean().backward()
    optimizer.step()
    for parameter in model.parameters():
        assert parameter.grad is not None and parameter.grad.shape == parameter.shape


if __name__ == "__main__":
    train(sys.argv[1], (sys.argv[2:] or ["default"])[0])
