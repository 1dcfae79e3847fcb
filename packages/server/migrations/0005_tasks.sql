-- Tasks. Those that live are rows of tasks; one that ended is gone from there and stands in the history.
create table fleetline.queues (
  id int generated always as identity primary key,
  keep interval not null default '7 days',
  name text not null unique);

-- What a claim reads: one number for a queue, a machine and its shape. A pod writes those that it can run when it starts.
create table fleetline.tracks (
  id int generated always as identity primary key,
  queue int not null,
  max_attempts smallint not null,
  machine text not null,
  shape text not null,
  unique (queue, machine, shape));

create type fleetline.task_state as enum ('ready', 'waiting', 'claimed', 'held', 'dead');

-- The order of becoming ready. It has gaps, and commits come in another order: never a cursor.
create sequence fleetline.place;

-- pod is set exactly while claimed, and attempt counts claims: (id, attempt, pod) is the fence of every write for a claim.
-- spent counts the attempts that count against max_attempts. Found by id; tenant says whose.
create table fleetline.tasks (
  id uuid primary key,
  place bigint not null default nextval('fleetline.place'),
  created_at timestamptz not null default now(),
  run_at timestamptz not null default now(),
  claimed_at timestamptz,
  track int not null,
  tenant int not null,
  attempt int not null default 0,
  pod int,
  priority smallint not null default 3 check (priority between 0 and 7),
  spent smallint not null default 0,
  max_attempts smallint not null,
  state fleetline.task_state not null,
  reason text,
  input jsonb not null,
  error jsonb,
  check ((pod is null) = (state <> 'claimed')))
  with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
        autovacuum_vacuum_cost_delay = 0);

-- Rows that wait, are held or are dead stand outside the index that a claim reads: however many, they cost it nothing.
create index tasks_ready on fleetline.tasks (track, priority desc, place) where state = 'ready';
create index tasks_due on fleetline.tasks (run_at) where state = 'waiting';
create index tasks_claimed on fleetline.tasks (pod) where state = 'claimed';

-- A partition a day, dropped whole: what is kept costs no vacuum.
create table fleetline.task_history (
  id uuid not null,
  created_at timestamptz not null,
  claimed_at timestamptz,
  settled_at timestamptz not null default now(),
  track int not null,
  tenant int not null,
  attempt int not null,
  pod int not null,
  priority smallint not null,
  spent smallint not null,
  outcome text not null,
  input jsonb not null,
  result jsonb,
  error jsonb)
  partition by range (settled_at);
create index on fleetline.task_history (id);

-- A pod's role needs no right to make tables: it may execute these two.
create function fleetline.make_partitions(days_ahead int) returns void
  language plpgsql security definer
  set search_path = pg_catalog, pg_temp set timezone = 'UTC' set lock_timeout = '1s' as $$
declare day date;
begin
  perform pg_advisory_xact_lock(hashtext('fleetline.partitions'));
  for day in select generate_series(current_date - 1, current_date + days_ahead, interval '1 day') loop
    if to_regclass('fleetline.task_history_' || to_char(day, 'YYYYMMDD')) is null then
      execute format('create table fleetline.%I partition of fleetline.task_history for values from (%L) to (%L)',
                     'task_history_' || to_char(day, 'YYYYMMDD'), day, day + 1);
    end if;
  end loop;
end $$;

-- The oldest day that no queue keeps any more; one a call, so that a table is locked for one drop only.
create function fleetline.drop_partitions() returns void
  language plpgsql security definer
  set search_path = pg_catalog, pg_temp set timezone = 'UTC' set lock_timeout = '1s' as $$
declare oldest text;
begin
  perform pg_advisory_xact_lock(hashtext('fleetline.partitions'));
  select min(c.relname::text) into oldest
    from pg_inherits i join pg_class c on c.oid = i.inhrelid
   where i.inhparent = 'fleetline.task_history'::regclass
     and to_date(right(c.relname, 8), 'YYYYMMDD') + 1 <= now() - (select max(keep) from fleetline.queues);
  if oldest is not null then execute format('drop table fleetline.%I', oldest); end if;
end $$;

revoke execute on function fleetline.make_partitions, fleetline.drop_partitions from public;
select fleetline.make_partitions(7);

-- An error carries what the last five attempts said.
create function fleetline.fault(was jsonb, is_now jsonb) returns jsonb immutable language sql as $$
  select is_now || jsonb_build_object('attempts',
    coalesce(jsonb_path_query_array(was, '$.attempts[last - 3 to last]'), '[]') || (is_now - 'stack')) $$;

-- For programs in any language, in their own transaction: they need no more than the right to execute it.
-- options: tenant (a name), priority, run_at, max_attempts.
create function fleetline.enqueue(queue text, machine text, input jsonb, options jsonb default '{}') returns uuid
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  -- A UUIDv7: 48 bits of time in front of a random one, whose version becomes 7.
  made uuid := encode(set_bit(set_bit(overlay(
    uuid_send(gen_random_uuid())
    placing substring(int8send(floor(extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6),
    52, 1), 53, 1), 'hex')::uuid;
  due timestamptz := coalesce((options ->> 'run_at')::timestamptz, now());
  unknown_option text := (select min(o) from jsonb_object_keys(options) o
    where o not in ('tenant', 'priority', 'run_at', 'max_attempts'));
  owner int := (select t.id from fleetline.tenants t where t.name = coalesce(options ->> 'tenant', 'dev'));
  wanted record;
begin
  if unknown_option is not null then
    raise exception 'fleetline.enqueue has no option %', unknown_option using errcode = 'invalid_parameter_value';
  end if;
  if octet_length(input::text) > 262144 then
    raise exception 'The input is over 262144 bytes of JSON' using errcode = 'program_limit_exceeded';
  end if;
  if owner is null then
    raise exception 'There is no tenant %', options ->> 'tenant' using errcode = 'invalid_parameter_value';
  end if;
  select k.id, k.max_attempts into wanted
    from fleetline.tracks k join fleetline.queues q on q.id = k.queue
   where q.name = enqueue.queue and k.machine = enqueue.machine and k.shape = '';
  if not found then
    raise exception 'No pod has run % in queue % yet: start one that knows it', machine, queue
      using errcode = 'invalid_parameter_value';
  end if;
  insert into fleetline.tasks (id, track, tenant, state, run_at, priority, max_attempts, input)
  values (made, wanted.id, owner, (case when due > now() then 'waiting' else 'ready' end)::fleetline.task_state, due,
          coalesce((options ->> 'priority')::smallint, 3),
          least(1000, greatest(1, coalesce((options ->> 'max_attempts')::smallint, wanted.max_attempts))), input);
  return made;
end $$;
revoke execute on function fleetline.enqueue from public;
