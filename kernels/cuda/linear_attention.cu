/* flacheck
operator: linear_attention
shapes: [{HEAD_DIM: 64}, {HEAD_DIM: 128}, {HEAD_DIM: 256}]
units:
  chunk_fwd: {form: chunk, defines: {ELEMENT: "{dtype}", HEAD_DIM: "{HEAD_DIM}"}}
*/
// Causal linear attention, chunk by chunk, forward:
//   o[t] = scale * sum over s <= t of (q[t] . k[s]) v[s]
// Within a chunk the scores are formed and masked; what came before is in the state S = sum of k[s] v[s]^T. One block for each
// head of each sequence and each slice of V's columns. Tensors are [B, T, H, D]; the last chunk may be short.
#include "elements.cuh"

namespace {
constexpr int D = HEAD_DIM;
constexpr int kChunk = 16;
// Columns of V for one block: static shared memory ends at 48 KiB.
constexpr int kColumns = D > 128 ? 8 : 16;
constexpr int kThreads = 128;
}

extern "C" __global__ void __launch_bounds__(kThreads)
    linear_attention_chunk_fwd(ELEMENT const *__restrict__ q, ELEMENT const *__restrict__ k, ELEMENT const *__restrict__ v,
                               ELEMENT *__restrict__ o, float scale, int length, int heads) {
  __shared__ float q_c[kChunk][D], k_c[kChunk][D], v_c[kChunk][kColumns], scores[kChunk][kChunk], state[D][kColumns];
  int const head = blockIdx.x % heads, sequence = blockIdx.x / heads, first = blockIdx.y * kColumns;
  for (int at = threadIdx.x; at < D * kColumns; at += kThreads)
    state[at / kColumns][at % kColumns] = 0.f;
  for (int start = 0; start < length; start += kChunk) {
    long const base = (static_cast<long>(sequence) * length + start) * heads + head;
    __syncthreads();
    for (int at = threadIdx.x; at < kChunk * D; at += kThreads) {
      int const t = at / D, d = at % D;
      bool const is_inside = start + t < length;
      long const from = (base + static_cast<long>(t) * heads) * D + d;
      q_c[t][d] = is_inside ? static_cast<float>(q[from]) * scale : 0.f;
      k_c[t][d] = is_inside ? static_cast<float>(k[from]) : 0.f;
    }
    for (int at = threadIdx.x; at < kChunk * kColumns; at += kThreads) {
      int const t = at / kColumns, c = at % kColumns;
      long const from = (base + static_cast<long>(t) * heads) * D + first + c;
      v_c[t][c] = start + t < length ? static_cast<float>(v[from]) : 0.f;
    }
    __syncthreads();
    for (int at = threadIdx.x; at < kChunk * kChunk; at += kThreads) {
      int const t = at / kChunk, s = at % kChunk;
      float sum = 0.f;
      for (int d = 0; d < D; ++d)
        sum += q_c[t][d] * k_c[s][d];
      scores[t][s] = s <= t ? sum : 0.f;
    }
    __syncthreads();
    for (int at = threadIdx.x; at < kChunk * kColumns; at += kThreads) {
      int const t = at / kColumns, c = at % kColumns;
      float sum = 0.f;
      for (int d = 0; d < D; ++d)
        sum += q_c[t][d] * state[d][c];
      for (int s = 0; s < kChunk; ++s)
        sum += scores[t][s] * v_c[s][c];
      if (start + t < length)
        o[(base + static_cast<long>(t) * heads) * D + first + c] = ELEMENT(sum);
    }
    __syncthreads();
    for (int at = threadIdx.x; at < D * kColumns; at += kThreads) {
      int const d = at / kColumns, c = at % kColumns;
      float sum = state[d][c];
      for (int s = 0; s < kChunk; ++s)
        sum += k_c[s][d] * v_c[s][c];
      state[d][c] = sum;
    }
  }
}
