-- pods from: 17
-- A tenant or a role that does not exist is an error: otherwise a typing error would look like a right that was taken back.
create or replace function fleetline.revoke_enqueue(role_name name, tenant_name text) returns void
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare name text := fleetline.function_of(tenant_name);
begin
  if not exists (select from fleetline.tenants t where t.name = tenant_name) then
    raise exception 'There is no tenant %', tenant_name using errcode = 'invalid_parameter_value';
  elsif role_name <> 'public' and not exists (select from pg_roles r where r.rolname = role_name) then
    raise exception 'There is no role %', role_name using errcode = 'undefined_object';
  elsif to_regproc('fleetline.' || name) is not null then
    execute format('revoke execute on function fleetline.%I from %I', name, role_name);
  end if;
end $$;
