% Prints the reference figures of octave-queueing as CSV: method, parameters, figure, value.
% Run by scripts/octave-queueing, which keeps the output as octave.csv.
pkg load queueing
printf("method,parameters,figure,value\n");
function row(method, parameters, figure, value)
  printf("%s,%s,%s,%.17g\n", method, parameters, figure, value);
end
function steady(method, parameters, U, R, Q, X)
  row(method, parameters, "utilisation", U);
  row(method, parameters, "response_mean_s", R);
  row(method, parameters, "outstanding_mean", Q);
  row(method, parameters, "throughput_per_s", X);
end
for load = [0.1 0.5 0.9 0.99]
  for mean = [0.001 0.0125]
    lambda = load / mean;
    p = sprintf("arrivals_per_s=%.17g service_mean_s=%.17g", lambda, mean);
    [U R Q X] = qsmm1(lambda, 1 / mean);
    steady("mm1", p, U, R, Q, X);
    for servers = [2 4 32]
      [U R Q X] = qsmmm(lambda * servers, 1 / mean, servers);
      steady("mmc", sprintf("arrivals_per_s=%.17g service_mean_s=%.17g servers=%d", lambda * servers, mean, servers), U, R, Q, X);
    end
    for sd = [0 0.4 1 2.5] * mean
      [U R Q X] = qsmg1(lambda, mean, sd^2 + mean^2);
      steady("mg1", sprintf("%s service_sd_s=%.17g", p, sd), U, R, Q, X);
    end
  end
end
demands = [0.008 0.0125 0.003];
for N = [1 2 5 20 100]
  for Z = [0 0.05 1]
    p = sprintf("members=%d think_mean_s=%.17g demands_s=0.008;0.0125;0.003", N, Z);
    [U R Q X] = qncsmva(N, demands, [1 1 1], [1 1 1], Z);
    row("mva", p, "throughput_per_s", X(1));
    for k = 1:3
      row("mva", p, sprintf("station%d_response_mean_s", k), R(k));
      row("mva", p, sprintf("station%d_outstanding_mean", k), Q(k));
      row("mva", p, sprintf("station%d_utilisation", k), U(k));
    end
    [Xl Xu Rl Ru] = qncsaba(N, demands, [1 1 1], [1 1 1], Z);
    row("asymptotic_bounds", p, "throughput_min_per_s", Xl);
    row("asymptotic_bounds", p, "throughput_max_per_s", Xu);
    row("asymptotic_bounds", p, "response_min_s", Rl);
    row("asymptotic_bounds", p, "response_max_s", Ru);
    [Xl Xu Rl Ru] = qncsbsb(N, demands, [1 1 1], [1 1 1], Z);
    row("balanced_bounds", p, "throughput_min_per_s", Xl);
    row("balanced_bounds", p, "throughput_max_per_s", Xu);
    row("balanced_bounds", p, "response_min_s", Rl);
    row("balanced_bounds", p, "response_max_s", Ru);
    if Z > 0
      [U R Q X] = qncsmva(N, [0.01], [1], [1], Z);
      p = sprintf("members=%d think_mean_s=%.17g service_mean_s=0.01", N, Z);
      row("finite_population", p, "throughput_per_s", X(1));
      row("finite_population", p, "response_mean_s", R(1));
      row("finite_population", p, "outstanding_mean", Q(1));
    end
  end
end
