-- The pods among themselves. A row of pods is one incarnation of a process: a restart, or a burial, gives a new one.
-- The beat changes beat_at alone, which no index holds, on a page with room for it: the update touches no index (HOT).
create table fleetline.pods (
  id int generated always as identity primary key,
  born_at timestamptz not null default now(),
  beat_at timestamptz not null default now(),
  ended_at timestamptz,
  name text not null,
  version text not null,
  state text not null default 'live' check (state in ('live', 'draining', 'dead')))
  with (fillfactor = 30);

-- Who leads, and under which term: pod is null when the term was given up; since is when it was taken or given up.
create table fleetline.leader (
  one boolean primary key default true check (one),
  term bigint not null,
  pod int,
  since timestamptz not null default now());
insert into fleetline.leader (term) values (0);
