/* flacheck
operator: wkv
shapes: [{HEAD_DIM: 64}, {HEAD_DIM: 128}, {HEAD_DIM: 256}]
units:
  fwd: {form: fused_recurrent, defines: {ELEMENT: "{dtype}", HEAD_DIM: "{HEAD_DIM}"}}
*/
// The recurrence of RWKV with a decay for each channel and step, forward:
//   o[t, i] = sum over j of r[t, j] * (S[j, i] + u[j] * k[t, j] * v[t, i])
//   S[j, i] = w[t, j] * S[j, i] + k[t, j] * v[t, i]
// One block for each head of each sequence, one thread for each column i of its state, which stays in registers: 64 of them, and
// more than a thread has from 256 on. Tensors are [B, T, H, D], u is [H, D], the final state [B, H, D, D] in fp32.
#include "elements.cuh"

extern "C" __global__ void __launch_bounds__(HEAD_DIM)
    wkv_fwd(ELEMENT const *__restrict__ r, ELEMENT const *__restrict__ k, ELEMENT const *__restrict__ v,
            float const *__restrict__ w, float const *__restrict__ u, ELEMENT *__restrict__ o,
            float *__restrict__ final_state, int length, int heads) {
  constexpr int D = HEAD_DIM;
  __shared__ float r_t[D], k_t[D], w_t[D], u_h[D];
  int const head = blockIdx.x % heads, sequence = blockIdx.x / heads, i = threadIdx.x;
  float state[D];
#pragma unroll
  for (int j = 0; j < D; ++j)
    state[j] = 0.f;
  u_h[i] = u[head * D + i];
  for (int t = 0; t < length; ++t) {
    long const at = ((static_cast<long>(sequence) * length + t) * heads + head) * D + i;
    __syncthreads();
    r_t[i] = static_cast<float>(r[at]);
    k_t[i] = static_cast<float>(k[at]);
    w_t[i] = w[at];
    __syncthreads();
    float const v_t = static_cast<float>(v[at]);
    float sum = 0.f;
#pragma unroll
    for (int j = 0; j < D; ++j) {
      float const kv = k_t[j] * v_t;
      sum += r_t[j] * (state[j] + u_h[j] * kv);
      state[j] = w_t[j] * state[j] + kv;
    }
    o[at] = ELEMENT(sum);
  }
#pragma unroll
  for (int j = 0; j < D; ++j)
    final_state[((static_cast<long>(sequence) * heads + head) * D + j) * D + i] = state[j];
}
