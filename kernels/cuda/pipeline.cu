/* flacheck
operator: attention_pipeline
shapes: [{HEAD_DIM: 64}, {HEAD_DIM: 128}, {HEAD_DIM: 256}]
units:
  fwd: {form: mismatched, defines: {ELEMENT: "{dtype}", HEAD_DIM: "{HEAD_DIM}"}}
  fwd_mended: {form: mended, defines: {ELEMENT: "{dtype}", HEAD_DIM: "{HEAD_DIM}", MENDED: true}}
*/
// The loads of K and of V in an attention kernel for Hopper. Both come through TMA, except that an 8-bit V is transposed on its
// way and comes through a pipeline of plain asynchronous copies. V's parameters are built from K's: of one type in bf16, of two
// in fp8, where no conversion exists. The mended variant makes them of their own type, and says where they are made what would
// otherwise show deep in an instantiation.
#include <cstddef>
#include <type_traits>

#include "elements.cuh"

// A pipeline whose loads are counted in bytes by the TMA unit.
template <int Stages> struct TmaPipeline {
  struct Params {
    unsigned transaction_bytes = 0;
    unsigned consumers = 0;
    bool is_leader = false;
  };
  Params params;
  unsigned phase = 0;
  __device__ explicit TmaPipeline(Params const &given) : params(given) {}
  __device__ void advance() { phase = (phase + 1) % Stages; }
};

// A pipeline whose producers arrive one by one.
template <int Stages> struct CopyPipeline {
  struct Params {
    unsigned producers = 0;
    unsigned consumers = 0;
  };
  Params params;
  unsigned phase = 0;
  __device__ explicit CopyPipeline(Params const &given) : params(given) {}
  __device__ void advance() { phase = (phase + 1) % Stages; }
};

template <class Element, int HeadDim, int Stages = 2> struct Mainloop {
  // Tensor cores take an 8-bit V only with its rows along the sequence.
  static constexpr bool transposes_v = sizeof(Element) == 1;
  static constexpr int block = HeadDim > 128 ? 64 : 128;
  using PipelineK = TmaPipeline<Stages>;
  using PipelineV = std::conditional_t<transposes_v, CopyPipeline<Stages>, TmaPipeline<Stages>>;
};

// Parameters for a pipeline: only its own type is taken, and a mix-up is named here.
template <class Pipeline, class Params> __device__ typename Pipeline::Params params_for(Params const &given) {
  static_assert(std::is_same_v<Params, typename Pipeline::Params>, "a pipeline is given the parameters of another pipeline");
  return given;
}

template <class Main, class Element, int HeadDim> struct Forward {
  using PipelineParamsK = typename Main::PipelineK::Params;
  using PipelineParamsV = typename Main::PipelineV::Params;

  __device__ float operator()(Element const *k, Element const *v, int length) const {
    PipelineParamsK params_k;
    params_k.transaction_bytes = Main::block * HeadDim * sizeof(Element);
    params_k.consumers = blockDim.x - 32;
    params_k.is_leader = threadIdx.x == 0;
#ifdef MENDED
    PipelineParamsV own_v{};
    own_v.consumers = params_k.consumers;
    PipelineParamsV params_v = params_for<typename Main::PipelineV>(own_v);
#else
    PipelineParamsV params_v = params_k;
#endif
    typename Main::PipelineK pipeline_k(params_k);
    typename Main::PipelineV pipeline_v(params_v);
    float sum = 0.f;
    for (int at = threadIdx.x; at < length * HeadDim; at += blockDim.x) {
      sum += static_cast<float>(k[at]) * static_cast<float>(v[at]);
      pipeline_k.advance();
      pipeline_v.advance();
    }
    return sum + static_cast<float>(pipeline_k.phase + pipeline_v.phase);
  }
};

template <class Element, int HeadDim>
__global__ void forward(float *out, Element const *k, Element const *v, int length) {
  using Main = Mainloop<Element, HeadDim>;
  out[blockIdx.x * blockDim.x + threadIdx.x] = Forward<Main, Element, HeadDim>{}(k, v, length);
}

template __global__ void forward<ELEMENT, HEAD_DIM>(float *, ELEMENT const *, ELEMENT const *, int);
