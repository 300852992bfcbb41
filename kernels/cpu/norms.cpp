// RMSNorm and LayerNorm: two passes over a row while it is in cache; weight gradients summed in fp32.
#include <cmath>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/dispatch.hpp"

namespace plumbline::cpu {
namespace {

template <class T>
PLUMBLINE_MULTIVERSION void rms_forward(Matrix x, Matrix w, Matrix y, float* rstd, double epsilon) {
  const std::int64_t h = x.cols;
  const T* weight = w.as<T>();
  for (std::int64_t t = 0; t < x.rows; ++t) {
    const T* in = row_of<T>(x, t);
    T* out = row_of<T>(y, t);
    LaneSum squares;
    for_lanes(h, [&] PLUMBLINE_LANES {
      const Lanes value = load(in + i, part);
      squares += value * value;
    });
    rstd[t] = static_cast<float>(1.0 / std::sqrt(sum(squares) / static_cast<double>(h) + epsilon));
    const Lanes factor = splat(rstd[t]);
    for_lanes(h, [&] PLUMBLINE_LANES {
      store(out + i, load(in + i, part) * factor * load(weight + i, part), part);
    });
  }
}

/// dx = residual + r·g - x·r³·mean(g·x), g = dy·w, r = 1/rms.
template <class T>
PLUMBLINE_MULTIVERSION void rms_backward(Matrix dy, Matrix x, Matrix w, const float* rstd, Matrix residual,
                                         Matrix dx, float* dw) {
  const std::int64_t h = x.cols;
  const T* weight = w.as<T>();
  for (std::int64_t t = 0; t < x.rows; ++t) {
    const T* in = row_of<T>(x, t);
    const T* gradient = row_of<T>(dy, t);
    const T* added = residual.data == nullptr ? nullptr : row_of<T>(residual, t);
    T* out = row_of<T>(dx, t);
    const float r = rstd[t];
    LaneSum products;
    for_lanes(h, [&] PLUMBLINE_LANES {
      const Lanes product = load(gradient + i, part) * load(in + i, part);
      store(dw + i, load(dw + i, part) + product * r, part);
      products += product * load(weight + i, part);
    });
    const float pull = r * r * r * sum(products) / static_cast<float>(h);
    for_lanes(h, [&] PLUMBLINE_LANES {
      const Lanes base = added == nullptr ? Lanes{} : load(added + i, part);
      const Lanes g = load(gradient + i, part) * load(weight + i, part);
      store(out + i, base + g * r - load(in + i, part) * pull, part);
    });
  }
}

template <class T>
PLUMBLINE_MULTIVERSION void head_forward(Matrix x, Matrix w, Matrix y, Matrix rstd, double epsilon) {
  const std::int64_t d = w.cols;
  const T* weight = w.as<T>();
  for (std::int64_t t = 0; t < x.rows; ++t) {
    for (std::int64_t head = 0; head < rstd.cols; ++head) {
      const T* in = row_of<T>(x, t) + head * d;
      T* out = row_of<T>(y, t) + head * d;
      LaneSum squares;
      for_lanes(d, [&] PLUMBLINE_LANES {
        const Lanes value = load(in + i, part);
        squares += value * value;
      });
      const auto r = static_cast<float>(1.0 / std::sqrt(sum(squares) / static_cast<double>(d) + epsilon));
      row_of<float>(rstd, t)[head] = r;
      for_lanes(
          d, [&] PLUMBLINE_LANES { store(out + i, load(in + i, part) * r * load(weight + i, part), part); });
    }
  }
}

/// As rms_backward, head by head.
template <class T>
PLUMBLINE_MULTIVERSION void head_backward(Matrix dy, Matrix x, Matrix w, Matrix rstd, Matrix dx, float* dw) {
  const std::int64_t d = w.cols;
  const T* weight = w.as<T>();
  for (std::int64_t t = 0; t < x.rows; ++t) {
    for (std::int64_t head = 0; head < rstd.cols; ++head) {
      const T* in = row_of<T>(x, t) + head * d;
      const T* gradient = row_of<T>(dy, t) + head * d;
      T* out = row_of<T>(dx, t) + head * d;
      const float r = row_of<float>(rstd, t)[head];
      LaneSum products;
      for_lanes(d, [&] PLUMBLINE_LANES {
        const Lanes product = load(gradient + i, part) * load(in + i, part);
        store(dw + i, load(dw + i, part) + product * r, part);
        products += product * load(weight + i, part);
      });
      const float pull = r * r * r * sum(products) / static_cast<float>(d);
      for_lanes(d, [&] PLUMBLINE_LANES {
        const Lanes g = load(gradient + i, part) * load(weight + i, part);
        store(out + i, g * r - load(in + i, part) * pull, part);
      });
    }
  }
}

template <class T>
PLUMBLINE_MULTIVERSION void layer_forward(Matrix x, Matrix w, Matrix b, Matrix y, float* mean, float* rstd,
                                          double epsilon) {
  const std::int64_t h = x.cols;
  const T* weight = w.as<T>();
  const T* bias = b.as<T>();
  for (std::int64_t t = 0; t < x.rows; ++t) {
    const T* in = row_of<T>(x, t);
    T* out = row_of<T>(y, t);
    LaneSum total;
    for_lanes(h, [&] PLUMBLINE_LANES { total += load(in + i, part); });
    mean[t] = sum(total) / static_cast<float>(h);
    const Lanes center = splat(mean[t]);
    LaneSum squares;
    for_lanes(h, [&] PLUMBLINE_LANES {
      const Lanes distance = keep(load(in + i, part) - center, Lanes{}, part);
      squares += distance * distance;
    });
    rstd[t] = static_cast<float>(1.0 / std::sqrt(sum(squares) / static_cast<double>(h) + epsilon));
    const Lanes factor = splat(rstd[t]);
    for_lanes(h, [&] PLUMBLINE_LANES {
      const Lanes normal = (load(in + i, part) - center) * factor;
      store(out + i, normal * load(weight + i, part) + load(bias + i, part), part);
    });
  }
}

/// dx = residual + r·(g - mean(g) - n·mean(g·n)), g = dy·w, n = (x - mean)·r.
template <class T>
PLUMBLINE_MULTIVERSION void layer_backward(Matrix dy, Matrix x, Matrix w, const float* mean,
                                           const float* rstd, Matrix residual, Matrix dx, float* dw,
                                           float* db) {
  const std::int64_t h = x.cols;
  const T* weight = w.as<T>();
  for (std::int64_t t = 0; t < x.rows; ++t) {
    const T* in = row_of<T>(x, t);
    const T* gradient = row_of<T>(dy, t);
    const T* added = residual.data == nullptr ? nullptr : row_of<T>(residual, t);
    T* out = row_of<T>(dx, t);
    const float center = mean[t];
    const float r = rstd[t];
    LaneSum sums;
    LaneSum products;
    for_lanes(h, [&] PLUMBLINE_LANES {
      const Lanes d = load(gradient + i, part);
      const Lanes normal = (load(in + i, part) - center) * r;
      const Lanes g = d * load(weight + i, part);
      store(dw + i, load(dw + i, part) + d * normal, part);
      store(db + i, load(db + i, part) + d, part);
      sums += g;
      products += g * normal;
    });
    const float g_mean = sum(sums) / static_cast<float>(h);
    const float product_mean = sum(products) / static_cast<float>(h);
    for_lanes(h, [&] PLUMBLINE_LANES {
      const Lanes base = added == nullptr ? Lanes{} : load(added + i, part);
      const Lanes normal = (load(in + i, part) - center) * r;
      const Lanes g = load(gradient + i, part) * load(weight + i, part);
      store(out + i, base + (g - g_mean - normal * product_mean) * r, part);
    });
  }
}

}  // namespace

void CpuOperators::rmsnorm_forward(Matrix x, Matrix w, Matrix y, Matrix rstd, double epsilon) {
  with_type("rmsnorm_forward", x.dtype,
            [&](auto type) { rms_forward<decltype(type)>(x, w, y, rstd.as<float>(), epsilon); });
}

void CpuOperators::rmsnorm_backward(Matrix dy, Matrix x, Matrix w, Matrix rstd, Matrix residual, Matrix dx,
                                    Matrix dw) {
  float* weight_sums = column_sums(x.cols);
  with_type("rmsnorm_backward", x.dtype, [&](auto type) {
    rms_backward<decltype(type)>(dy, x, w, rstd.as<float>(), residual, dx, weight_sums);
  });
  if (!dw.empty()) add_column_sums(weight_sums, dw);
}

void CpuOperators::head_norm_forward(Matrix x, Matrix w, Matrix y, Matrix rstd, double epsilon) {
  with_type("head_norm_forward", x.dtype,
            [&](auto type) { head_forward<decltype(type)>(x, w, y, rstd, epsilon); });
}

void CpuOperators::head_norm_backward(Matrix dy, Matrix x, Matrix w, Matrix rstd, Matrix dx, Matrix dw) {
  float* weight_sums = column_sums(w.cols);
  with_type("head_norm_backward", x.dtype,
            [&](auto type) { head_backward<decltype(type)>(dy, x, w, rstd, dx, weight_sums); });
  if (!dw.empty()) add_column_sums(weight_sums, dw);
}

void CpuOperators::layernorm_forward(Matrix x, Matrix w, Matrix b, Matrix y, Matrix mean, Matrix rstd,
                                     double epsilon) {
  with_type("layernorm_forward", x.dtype, [&](auto type) {
    layer_forward<decltype(type)>(x, w, b, y, mean.as<float>(), rstd.as<float>(), epsilon);
  });
}

void CpuOperators::add_rmsnorm_forward(const ResidualSum& added, Matrix w, Matrix y, Matrix rstd,
                                       double epsilon) {
  add_multiple(added.a, added.b, added.factor, added.bias, added.sum);
  rmsnorm_forward(added.sum, w, y, rstd, epsilon);
}

void CpuOperators::add_layernorm_forward(const ResidualSum& added, Matrix w, Matrix b, Matrix y, Matrix mean,
                                         Matrix rstd, double epsilon) {
  add_multiple(added.a, added.b, added.factor, added.bias, added.sum);
  layernorm_forward(added.sum, w, b, y, mean, rstd, epsilon);
}

void CpuOperators::layernorm_backward(Matrix dy, Matrix x, Matrix w, Matrix mean, Matrix rstd,
                                      Matrix residual, Matrix dx, Matrix dw, Matrix db) {
  float* weight_sums = column_sums(2 * x.cols);
  float* bias_sums = weight_sums + x.cols;
  with_type("layernorm_backward", x.dtype, [&](auto type) {
    layer_backward<decltype(type)>(dy, x, w, mean.as<float>(), rstd.as<float>(), residual, dx, weight_sums,
                                   bias_sums);
  });
  if (dw.empty()) return;
  add_column_sums(weight_sums, dw);
  add_column_sums(bias_sums, db);
}

}  // namespace plumbline::cpu
