"""An attention backend in plain torch: one request at a time, short enough to read."""

from batchwright.plugin import AttentionBackend, hookimpl


class PlainAttention(AttentionBackend):
    """Gathers each request's keys and values, and attends to them in float32."""

    name = "plain"

    def unsupported(self, spec):
        return "it has no attention sinks, and the model has some" if spec.sinks else None

    def allocate(self, spec, num_blocks):
        import torch  # not at the top: `batchwright plugins` lists backends without it

        self.torch, self.spec = torch, spec
        shape = (2, num_blocks * spec.block_size, spec.num_kv_heads, spec.head_size)
        options = {"dtype": getattr(torch, spec.dtype), "device": spec.device}
        self.caches = [torch.zeros(shape, **options) for _ in range(spec.num_layers)]

    def begin_step(self, batch):
        self.new_slots, self.requests, start = batch.slot_mapping, [], 0
        size = self.spec.block_size
        for row, count in enumerate(batch.query_lens):
            position = self.torch.arange(batch.seq_lens[row], device=self.new_slots.device)
            blocks = batch.block_tables[row, position // size].long()
            distance = position[-count:, None] - position  # from each query back to each key
            tokens = slice(start, start + count)
            self.requests.append((tokens, blocks * size + position % size, distance))
            start += count

    def forward(self, call):
        cache, window = self.caches[call.layer], self.spec.sliding_windows[call.layer]
        cache[:, self.new_slots] = self.torch.stack((call.key, call.value))  # before any is read
        query, group = call.query.float(), call.query.shape[1] // call.key.shape[1]
        output = self.torch.empty_like(call.query)
        for tokens, slots, distance in self.requests:
            if window is not None:  # what lies behind it may have been given away
                first = max(0, len(slots) - len(distance) + 1 - window)
                slots, distance = slots[first:], distance[:, first:]
            keys, values = cache[:, slots].float().repeat_interleave(group, 2)
            scores = self.torch.einsum("qhd,khd->hqk", query[tokens], keys) * call.scale
            if call.softcap is not None:
                scores = call.softcap * self.torch.tanh(scores / call.softcap)
            hidden = (distance < 0) | (distance >= (window or len(slots)))
            weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
            output[tokens] = self.torch.einsum("hqk,khd->qhd", weights, values).to(output.dtype)
        return output

    def copy_blocks(self, copies):
        for cache in self.caches:
            blocks = cache.unflatten(1, (-1, self.spec.block_size))
            blocks[:, [c.destination for c in copies]] = blocks[:, [c.source for c in copies]]


@hookimpl
def batchwright_register_attention():
    return [PlainAttention]
