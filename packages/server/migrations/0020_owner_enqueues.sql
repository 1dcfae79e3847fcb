-- pods from: 17
-- Nothing is revoked from the owner of the schema or from the owner of these functions. Without this check the owner of the functions
-- could lose `function_of`. `grant_enqueue` runs with its rights and would fail from then on.
create or replace function fleetline.revoke_enqueue(role_name name, tenant_name text) returns void
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  function_name text := fleetline.function_of(tenant_name);
  role_id oid := case when role_name = 'public' then 0 else (select r.oid from pg_roles r where r.rolname = role_name) end;
begin
  if not exists (select from fleetline.tenants t where t.name = tenant_name) then
    raise exception 'Nothing was revoked: there is no tenant %', tenant_name using errcode = 'invalid_parameter_value';
  elsif role_id is null then
    raise exception 'Nothing was revoked: there is no role %', role_name using errcode = 'undefined_object';
  elsif role_name = current_user or role_id = (select n.nspowner from pg_namespace n where n.nspname = 'fleetline') then
    raise exception 'Nothing was revoked: % owns the schema or its functions', role_name
      using errcode = 'invalid_grant_operation';
  end if;
  if to_regproc('fleetline.' || function_name) is not null then
    execute format('revoke execute on function fleetline.%I from %I', function_name, role_name);
  end if;
  if not exists (
    select from pg_proc p, aclexplode(p.proacl) a
     where p.pronamespace = 'fleetline'::regnamespace and p.proname like 'enqueue\_for\_%' and a.grantee = role_id)
  then
    execute format('revoke execute on function fleetline.enqueue, fleetline.function_of from %I', role_name);
  end if;
end $$;
