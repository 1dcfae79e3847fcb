-- How hard all pods together may push a downstream: what the leader has learnt, and who may have how much of it in flight.
-- Written once a second while it is in use, so that rows stay where they are (HOT): no second index, half of a page free.
-- term, gen: of the leader's write. capacity: null until a provider has refused or slowed down. memory: what else was learnt.
-- shares: {pod: {share, upTo, since, at, ok, refused}}. pause_until: nobody sends before; any pod may raise it.
create table fleetline.downstreams (
  key text primary key check (octet_length(key) <= 128),
  term bigint not null,
  gen bigint not null,
  capacity float8,
  memory jsonb not null,
  shares jsonb not null,
  safe_share int not null,
  pause_until timestamptz,
  expires_at timestamptz not null)
  with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- What a pod tells of each downstream that it uses: {key: load}. It is told again a second later, so that a crash may lose it.
create unlogged table fleetline.downstream_loads (
  pod int primary key,
  at timestamptz not null,
  loads jsonb not null)
  with (fillfactor = 50);
