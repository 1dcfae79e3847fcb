-- pods from: 17
-- The history has a partition a day: it is attached and detached with short locks. A role enqueues for the tenants that it has.

-- A day is made as a table of its own and then attached: that lock conflicts neither with reading nor with writing.
-- `create table … partition of` would wait for every open transaction that has read the history, and everybody else behind it.
-- The first day is that of one hour ago: a transaction that began before midnight still writes into it.
create or replace function fleetline.make_partitions(days_ahead int) returns void
  language plpgsql security definer
  set search_path = pg_catalog, pg_temp set timezone = 'UTC' set lock_timeout = '1s' as $$
declare
  day date;
  name text;
begin
  perform pg_advisory_xact_lock(hashtext('fleetline.partitions'));
  for day in select generate_series((now() - interval '1 hour')::date, current_date + days_ahead, interval '1 day') loop
    name := 'task_history_' || to_char(day, 'YYYYMMDD');
    if to_regclass('fleetline.' || name) is null then
      execute format('create table fleetline.%I (like fleetline.task_history including all)', name);
    end if;
    -- The table may be there and detached: then the clock was set back.
    if not (select c.relispartition from pg_class c where c.oid = to_regclass('fleetline.' || name)) then
      execute format('alter table fleetline.task_history attach partition fleetline.%I for values from (%L) to (%L)',
                     name, day, day + 1);
    end if;
  end loop;
end $$;

-- A call does one step: it drops a day that it has detached before or, if there is none, detaches the oldest day that no queue
-- keeps any more. A day that somebody else has detached is left alone: only what has the name that is given here is dropped.
-- Detaching locks the whole history, so it is a short transaction of its own; the caller sends COMMIT in the same message. It
-- waits for its locks five times, 20 ms each, because settlements queue up behind it: for the day first, which few use, then
-- for the history. A long read of the history delays this step and nothing else. The lock lasts until COMMIT returns, so
-- `synchronous_commit` is off: COMMIT waits neither for the disk nor for a standby. If a crash loses the step, the next call
-- repeats it.
-- The `case` keeps `to_date` away from other names of tables: the planner may evaluate conditions in any order.
create or replace function fleetline.drop_partitions() returns void
  language plpgsql security definer
  set search_path = pg_catalog, pg_temp set timezone = 'UTC' set lock_timeout = '20ms' as $$
declare
  kept_from timestamptz := now() - greatest(interval '1 hour', (select max(keep) from fleetline.queues));
  oldest record;
begin
  if not pg_try_advisory_xact_lock(hashtext('fleetline.partitions')) then return; end if;
  select c.relname::text as name, c.relispartition as is_attached into oldest
    from pg_class c
   where c.relnamespace = 'fleetline'::regnamespace and c.relkind = 'r'
     and case when c.relispartition and c.relname ~ '^task_history_\d{8}$'
              then to_date(right(c.relname, 8), 'YYYYMMDD') + 1 <= kept_from
              else c.relname ~ '^task_history_\d{8}_detached$' end
   order by c.relispartition, c.relname limit 1;
  if oldest is null then return; end if;
  perform set_config('synchronous_commit', 'off', true);
  for attempt in 1..5 loop
    begin
      execute format('lock table fleetline.%I in access exclusive mode', oldest.name);
      if oldest.is_attached then
        execute format('alter table fleetline.task_history detach partition fleetline.%I', oldest.name);
        execute format('alter table fleetline.%I rename to %I', oldest.name, oldest.name || '_detached');
      else
        execute format('drop table fleetline.%I', oldest.name);
      end if;
      return;
    exception when lock_not_available then
      perform pg_sleep(0.1);
    end;
  end loop;
  raise warning 'fleetline: % was not removed, because another transaction uses task_history; it is tried again', oldest.name;
end $$;

-- Enqueuing for a tenant whose number is known. Only the owner of the schema calls it.
-- options: priority, run_at, max_attempts.
create function fleetline.enqueue_into(tenant int, queue text, machine text, input jsonb, options jsonb) returns uuid
  language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  -- A UUIDv7: 48 bits of time in front of a random one, whose version becomes 7.
  made uuid := encode(set_bit(set_bit(overlay(
    uuid_send(gen_random_uuid())
    placing substring(int8send(floor(extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6),
    52, 1), 53, 1), 'hex')::uuid;
  due timestamptz := coalesce((options ->> 'run_at')::timestamptz, now());
  unknown_option text := (select min(o) from jsonb_object_keys(options) o
    where o not in ('tenant', 'priority', 'run_at', 'max_attempts'));
  wanted record;
begin
  if unknown_option is not null then
    raise exception 'fleetline.enqueue has no option %', unknown_option using errcode = 'invalid_parameter_value';
  end if;
  if octet_length(input::text) > 262144 then
    raise exception 'The input is over 262144 bytes of JSON' using errcode = 'program_limit_exceeded';
  end if;
  select k.id, k.max_attempts into wanted
    from fleetline.tracks k where k.id = fleetline.track_of(enqueue_into.queue, enqueue_into.machine);
  if not found then
    raise exception 'No pod has run % in queue % yet: start one that knows it', machine, queue
      using errcode = 'invalid_parameter_value';
  end if;
  insert into fleetline.tasks (id, track, tenant, state, run_at, priority, max_attempts, input)
  values (made, wanted.id, enqueue_into.tenant,
          (case when due > now() then 'waiting' else 'ready' end)::fleetline.task_state, due,
          coalesce((options ->> 'priority')::smallint, 3),
          least(1000, greatest(1, coalesce((options ->> 'max_attempts')::smallint, wanted.max_attempts))), input);
  return made;
end $$;
revoke execute on function fleetline.enqueue_into from public;

-- A role has a tenant if it may execute that tenant's function. So PostgreSQL itself decides, by the rights of whoever calls,
-- also inside functions of others, in an index, or through a group. The name is a digest: whoever reads the catalog learns no
-- tenant's name.
create function fleetline.function_of(tenant_name text) returns text immutable
  language sql set search_path = pg_catalog, pg_temp as $$
  select 'enqueue_for_' || left(encode(sha256(convert_to(tenant_name, 'UTF8')), 'hex'), 32) $$;

create function fleetline.grant_enqueue(role_name name, tenant_name text) returns void
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  tenant_id int := (select t.id from fleetline.tenants t where t.name = tenant_name);
  name text := fleetline.function_of(tenant_name);
begin
  if tenant_id is null then
    raise exception 'There is no tenant %', tenant_name using errcode = 'invalid_parameter_value';
  end if;
  execute format('
    create or replace function fleetline.%I(queue text, machine text, input jsonb, options jsonb) returns uuid
      language sql security definer set search_path = pg_catalog, pg_temp
      as ''select fleetline.enqueue_into(%s, queue, machine, input, options)''', name, tenant_id);
  execute format('revoke execute on function fleetline.%I from public', name);
  execute format('grant usage on schema fleetline to %I', role_name);
  execute format('grant execute on function fleetline.enqueue, fleetline.function_of, fleetline.%I to %I', name, role_name);
end $$;

create function fleetline.revoke_enqueue(role_name name, tenant_name text) returns void
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare name text := fleetline.function_of(tenant_name);
begin
  if to_regproc('fleetline.' || name) is not null then
    execute format('revoke execute on function fleetline.%I from %I', name, role_name);
  end if;
end $$;
revoke execute on function fleetline.function_of, fleetline.grant_enqueue, fleetline.revoke_enqueue from public;

-- With the caller's own rights: it calls the function of the tenant that the caller names, or of its only one. The owner of the
-- schema, and members of that role, have every tenant, and `dev` if they name none. A tenant that the caller does not have
-- gives the same error as one that does not exist.
-- options: tenant (a name), priority, run_at, max_attempts.
create or replace function fleetline.enqueue(queue text, machine text, input jsonb, options jsonb default '{}') returns uuid
  language plpgsql security invoker set search_path = pg_catalog, pg_temp as $$
declare
  tenant_name text := options ->> 'tenant';
  is_owner boolean := pg_has_role((select nspowner from pg_namespace where nspname = 'fleetline'), 'usage');
  tenant_id int;
  own text[];
  made uuid;
begin
  if is_owner then
    select t.id into tenant_id from fleetline.tenants t where t.name = coalesce(tenant_name, 'dev');
    if tenant_id is null then
      raise exception 'There is no tenant %', tenant_name using errcode = 'invalid_parameter_value';
    end if;
    return fleetline.enqueue_into(tenant_id, queue, machine, input, options);
  end if;
  own := array(
    select p.proname::text from pg_proc p
     where p.pronamespace = 'fleetline'::regnamespace and has_function_privilege(p.oid, 'execute')
       and p.proname like 'enqueue\_for\_%' and (tenant_name is null or p.proname = fleetline.function_of(tenant_name))
     limit 2);
  if cardinality(own) = 2 then
    raise exception '% may enqueue for several tenants: name one', current_user
      using errcode = 'invalid_parameter_value', hint = 'As an option: {"tenant": "name"}';
  elsif cardinality(own) = 0 then
    raise exception '% may not enqueue for %, or there is no such tenant', current_user, coalesce(tenant_name, 'any tenant')
      using errcode = 'insufficient_privilege',
            hint = 'The owner of the schema grants it: select fleetline.grant_enqueue(role, tenant)';
  end if;
  execute format('select fleetline.%I($1, $2, $3, $4)', own[1]) into made using queue, machine, input, options;
  return made;
end $$;

-- Roles that could enqueue until now get the tenant that they used without naming one.
do $$
declare grantee text;
begin
  for grantee in
    select coalesce(r.rolname::text, 'public')
      from pg_proc p, aclexplode(p.proacl) a left join pg_roles r on r.oid = a.grantee
     where p.oid = 'fleetline.enqueue'::regproc and a.grantee <> p.proowner
  loop
    perform fleetline.grant_enqueue(grantee::name, 'dev');
  end loop;
end $$;
