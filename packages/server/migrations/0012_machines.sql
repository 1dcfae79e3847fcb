-- Machines. A task stands at a position of its machine, the number of transitions that it has behind it, and carries what
-- they gave: {name: {value, at, attempt, ms}}. No index holds either, so that a record touches none (HOT).
alter table fleetline.tasks
  add column position smallint not null default 0,
  add column carry jsonb;
-- via: how it came to be done, if not by its end.
alter table fleetline.task_history
  add column position smallint not null default 0,
  add column carry jsonb,
  add column via text;

create function fleetline.entry(name text, value jsonb, attempt int, ms float8) returns jsonb stable language sql as $$
  select jsonb_build_object(name, jsonb_build_object('value', value, 'attempt', attempt, 'ms', ms,
    'at', to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))) $$;

-- What a shape is short for: the names of the transitions, in their order.
create table fleetline.shapes (
  machine text not null,
  shape text not null,
  names text[] not null,
  primary key (machine, shape));
insert into fleetline.shapes (machine, shape, names)
  select distinct machine, shape, array['run'] from fleetline.tracks where shape = ''
  union all values ('turn', 'session', array['reply']);

-- What a pod claims; null for one of an older release, which does not say.
alter table fleetline.pods add column tracks int[];

-- Where a task goes that is enqueued by the name of its machine: to the shape that a live pod runs, of these to the newest.
-- Not to tracks of which only a session ends the tasks.
create function fleetline.track_of(queue_name text, machine_name text) returns int stable language sql as $$
  select k.id
    from fleetline.tracks k join fleetline.queues q on q.id = k.queue
   where q.name = queue_name and k.machine = machine_name and k.max_attempts < 32767
   order by exists (select from fleetline.pods p where p.state = 'live' and k.id = any (p.tracks)) desc, k.id desc
   limit 1 $$;

-- As before, but for the track that it finds.
-- options: tenant (a name), priority, run_at, max_attempts.
create or replace function fleetline.enqueue(queue text, machine text, input jsonb, options jsonb default '{}') returns uuid
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
    from fleetline.tracks k where k.id = fleetline.track_of(enqueue.queue, enqueue.machine);
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
