"""The decode batch: requests that decode one token a step are advanced together."""

from batchwright.decode_batch.batch import BatchTokens, DecodeBatch

__all__ = ["BatchTokens", "DecodeBatch"]
