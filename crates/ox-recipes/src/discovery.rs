//! ServiceProvider registration and discovery, in the layout of Curator's `x-discovery`.
//!
//! ```text
//! /services                                          a container
//!  └─ mail                                           a container: the service
//!      ├─ 1a4ad27c-8f18-4e3b-9d84-4ee3a3bd94d0       ephemeral: an instance, described in JSON
//!      └─ f2d1b6a0-53c9-4b0e-a6f4-0c5f8f0d7c11
//! ```

use crate::cache::Cache;
use crate::error::RecipeError;
use crate::nodes::{child, uuid};
use crate::presence::PersistentNode;
use ox_client::Client;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::time::{SystemTime, UNIX_EPOCH};

/// One instance of a service, with a payload of the application. Its JSON is that of Curator's `ServiceInstance`.
///
/// ```
/// use ox_recipes::discovery::ServiceInstance;
/// let mut instance = ServiceInstance::<()>::new("mail", "10.0.0.1", 25);
/// instance.ssl_port = Some(465);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceInstance<P> {
    /// The name of the service.
    pub name: String,
    /// The id of the instance, unique within the service.
    pub id: String,
    /// Host name or IP address.
    #[serde(default)]
    pub address: Option<String>,
    /// Port for unencrypted connections, if any.
    #[serde(default)]
    pub port: Option<u16>,
    /// Port for TLS connections, if any.
    #[serde(default)]
    pub ssl_port: Option<u16>,
    /// Application data for the users of the service.
    #[serde(default = "Option::default")]
    pub payload: Option<P>,
    /// Registration time in milliseconds since 1970.
    #[serde(rename = "registrationTimeUTC", default)]
    pub registration_time_ms: i64,
    /// `DYNAMIC`: the instance is deregistered when the session of its owner ends.
    #[serde(default)]
    service_type: ServiceType,
    /// Curator's pattern for addresses; passed through unchanged.
    #[serde(default)]
    uri_spec: Option<serde_json::Value>,
}

/// Curator's types of instances. This crate registers dynamic instances only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum ServiceType {
    #[default]
    Dynamic,
    DynamicSequential,
    Static,
    Permanent,
}

impl<P> ServiceInstance<P> {
    /// Creates an instance with a new random id.
    ///
    /// ```
    /// let instance = ox_recipes::discovery::ServiceInstance::<()>::new("mail", "10.0.0.1", 25);
    /// ```
    pub fn new(name: &str, address: &str, port: u16) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            name: name.to_owned(),
            id: uuid(),
            address: Some(address.to_owned()),
            port: Some(port),
            ssl_port: None,
            payload: None,
            registration_time_ms: i64::try_from(now.as_millis()).unwrap_or(i64::MAX),
            service_type: ServiceType::Dynamic,
            uri_spec: None,
        }
    }

    /// Sets the payload of the instance.
    ///
    /// ```
    /// use ox_recipes::discovery::ServiceInstance;
    /// let instance = ServiceInstance::new("mail", "10.0.0.1", 25).with_payload("eu".to_owned());
    /// ```
    #[must_use]
    pub fn with_payload(mut self, payload: P) -> Self {
        self.payload = Some(payload);
        self
    }
}

/// Registers an instance below `base` for as long as the returned value and the session live.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::discovery::{ServiceInstance, ProviderStrategy, ServiceProvider, register};
/// let one = ServiceInstance::new("mail", "10.0.0.1", 25).with_payload("eu".to_owned());
/// let other = ServiceInstance::new("mail", "10.0.0.2", 25).with_payload("us".to_owned());
/// let registered = (register(&client, "/services", &one).await?, register(&client, "/services", &other).await?);
///
/// let service = ServiceProvider::<String>::follow(&client, "/services", "mail", ProviderStrategy::RoundRobin).await?;
/// let (first, second) = (service.pick().unwrap(), service.pick().unwrap());
/// assert_ne!(first.address, second.address);
/// assert_eq!(service.pick().unwrap(), first);
/// # Ok(())
/// # }
/// ```
pub async fn register<P: Serialize>(
    client: &Client,
    base: &str,
    instance: &ServiceInstance<P>,
) -> Result<PersistentNode, RecipeError> {
    let path = child(&child(base, &instance.name), &instance.id);
    let json = serde_json::to_vec(instance).map_err(|error| RecipeError::bad_data(&path, error))?;
    PersistentNode::start(client, &path, json).await
}

/// How a [`ServiceProvider`] chooses among the instances.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_recipes::discovery::{ProviderStrategy, ServiceProvider};
/// let service = ServiceProvider::<String>::follow(&client, "/services", "mail", ProviderStrategy::Sticky).await?;
/// let first = service.pick();
/// assert_eq!(service.pick(), first); // as long as it is registered
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderStrategy {
    /// Each instance in turn.
    RoundRobin,
    /// A random instance each time.
    Random,
    /// The same instance as long as it is registered.
    Sticky,
}

/// A service as its users see it: a list of instances that follows registrations, and a choice among them. Nodes that
/// do not decode as instances are ignored.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_recipes::discovery::{ProviderStrategy, ServiceProvider};
/// let service = ServiceProvider::<String>::follow(&client, "/services", "mail", ProviderStrategy::Random).await?;
/// println!("{:?}", service.pick());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ServiceProvider<P> {
    instances: Cache,
    picker: ProviderStrategy,
    /// Number of picks so far, and the id of the last one.
    picked: Mutex<(usize, Option<String>)>,
    payload: std::marker::PhantomData<fn() -> P>,
}

impl<P: DeserializeOwned> ServiceProvider<P> {
    /// Follows the instances of a service below `base`.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::discovery::{ProviderStrategy, ServiceProvider};
    /// let service = ServiceProvider::<String>::follow(&client, "/services", "mail", ProviderStrategy::Random).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn follow(
        client: &Client,
        base: &str,
        name: &str,
        picker: ProviderStrategy,
    ) -> Result<Self, RecipeError> {
        let instances = Cache::children(client, &child(base, name)).await?;
        Ok(Self { instances, picker, picked: Mutex::default(), payload: std::marker::PhantomData })
    }

    /// Returns all known instances, ordered by id.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::discovery::{ProviderStrategy, ServiceProvider};
    /// let service = ServiceProvider::<String>::follow(&client, "/services", "mail", ProviderStrategy::Random).await?;
    /// for instance in service.instances() {
    ///     println!("{:?}", instance.address);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn instances(&self) -> Vec<ServiceInstance<P>> {
        self.instances.nodes().values().filter_map(|node| serde_json::from_slice(&node.data).ok()).collect()
    }

    /// Chooses an instance; `None` if none is registered.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::discovery::{ProviderStrategy, ServiceProvider};
    /// let service = ServiceProvider::<String>::follow(&client, "/services", "mail", ProviderStrategy::Random).await?;
    /// let instance = service.pick().ok_or("no instance")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn pick(&self) -> Option<ServiceInstance<P>> {
        let mut instances = self.instances();
        if instances.is_empty() {
            return None;
        }
        let mut picked = self.picked.lock();
        let at = match self.picker {
            ProviderStrategy::RoundRobin => picked.0 % instances.len(),
            ProviderStrategy::Random => rand::random_range(0..instances.len()),
            ProviderStrategy::Sticky => instances
                .iter()
                .position(|instance| Some(&instance.id) == picked.1.as_ref())
                .unwrap_or_else(|| rand::random_range(0..instances.len())),
        };
        let instance = instances.swap_remove(at);
        *picked = (picked.0.wrapping_add(1), Some(instance.id.clone()));
        Some(instance)
    }

    /// Waits until instances are registered, deregistered or changed. An error means that no further changes follow,
    /// usually because the session has ended.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::discovery::{ProviderStrategy, ServiceProvider};
    /// let mut service = ServiceProvider::<String>::follow(&client, "/services", "mail", ProviderStrategy::Random).await?;
    /// while service.pick().is_none() {
    ///     service.changed().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn changed(&mut self) -> Result<(), RecipeError> {
        self.instances.changed().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The JSON of Curator 5, and the fields that newer versions add.
    #[test]
    fn curator_json_round_trips() {
        let json = r#"{"name":"mail","id":"7","address":"10.0.0.1","port":25,"sslPort":null,"payload":"eu","registrationTimeUTC":1500,"serviceType":"DYNAMIC","uriSpec":null}"#;
        let instance: ServiceInstance<String> = serde_json::from_str(json).unwrap();
        assert_eq!(
            (instance.port, instance.payload.as_deref(), instance.registration_time_ms),
            (Some(25), Some("eu"), 1500)
        );
        assert_eq!(serde_json::to_string(&instance).unwrap(), json);
        let newer = json.replace(r#""uriSpec":null"#, r#""uriSpec":{"parts":[]},"enabled":true"#);
        assert_eq!(serde_json::from_str::<ServiceInstance<String>>(&newer).unwrap().id, "7");
    }
}
